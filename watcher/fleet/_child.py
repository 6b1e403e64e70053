"""Programs of a scheduler as child processes: a deadline, bounded output, nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence

from watcher.fleet._api import FleetError

CHUNK = 1 << 16
GONE_SECONDS = 2.0  # a killed child may hang in the kernel: then nothing waits for it


class TooLargeError(FleetError):
    """More output than is read."""


class RefusedError(FleetError):
    """The program ran and said no."""


async def output(argv: Sequence[str], env: Mapping[str, str], deadline_seconds: float, max_bytes: int) -> bytes:
    """What the program wrote. Raises FleetError: not there, too late, too much, or an exit code that is not 0."""
    name = os.path.basename(argv[0])
    try:
        child = await asyncio.create_subprocess_exec(
            *argv, env=dict(env), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise FleetError(f"{argv[0]} cannot be run: {error.strerror}; set its path under fleet:") from None
    try:
        async with asyncio.timeout(deadline_seconds):
            told, said = await asyncio.gather(_read(child, child.stdout, max_bytes), _read(child, child.stderr, CHUNK))
            code = await child.wait()
    except TimeoutError:
        raise FleetError(f"{name} has not answered within {deadline_seconds:g} s: is its controller well?") from None
    finally:
        await _end(child)
    if told is None or said is None:
        raise TooLargeError(f"{name} wrote more than {max_bytes >> 20} MiB")
    if code != 0:
        words = " ".join(said.decode("utf-8", "replace").split())[:300]
        raise RefusedError(f"{name} failed with exit code {code}: {words or 'no message'}")
    return told


async def _read(child: asyncio.subprocess.Process, stream: asyncio.StreamReader | None, max_bytes: int) -> bytes | None:
    """Up to its end. None: it was too much, and the child is ended."""
    assert stream is not None
    out = bytearray()
    fits = True
    while chunk := await stream.read(CHUNK):
        fits = fits and len(out) + len(chunk) <= max_bytes
        if fits:
            out += chunk
        else:
            _kill(child)
    return bytes(out) if fits else None


async def _end(child: asyncio.subprocess.Process) -> None:
    """It and all that it started, which may outlive it; the pipes are read empty, or they would stay open."""
    if child.returncode is not None and all(pipe is None or pipe.at_eof() for pipe in (child.stdout, child.stderr)):
        return
    _kill(child)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GONE_SECONDS):
            await asyncio.gather(_read(child, child.stdout, 0), _read(child, child.stderr, 0))
            await child.wait()


def _kill(child: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
