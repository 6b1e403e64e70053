"""XIDs from the kernel's lines in the systemd journal, for an agent that may not read /dev/kmsg.

`journalctl` follows it and writes one JSON object a line; it ends with us, at the latest with its next line.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from typing import IO

from detectors.telemetry import SourceHealth
from watcher.clock import Clock
from watcher.sources.kernel_log import OLDEST_SECONDS, KernelXid
from watcher.sources.xid_lines import XidLines

COMMAND = (
    "journalctl", "--dmesg", "--follow", "--output=json", "--output-fields=MESSAGE", "--lines=2000", "--no-pager",
)  # fmt: skip
READ_BYTES = 1 << 20  # a read
MAX_LINE_BYTES = 1 << 16
AGAIN_SECONDS = 60.0
KILL_REAL_SECONDS = 1.0
ADVICE = "XIDs are read through NVML alone: put the agent's user into the group systemd-journal, or give it CAP_SYSLOG"


class Journal:
    """`read()` never blocks and never raises; `health` says why nothing comes."""

    def __init__(self, clock: Clock, command: Sequence[str] = COMMAND) -> None:
        self._clock, self._command = clock, command
        self._process: subprocess.Popen[bytes] | None = None
        self._lines = XidLines()
        self._rest = b""
        self._problem: tuple[str, str] | None = ("silent", f"no line of the kernel in the journal yet. {ADVICE}")
        self._not_before = float("-inf")
        self._read_at: float | None = None

    def read(self) -> list[KernelXid]:
        now = self._clock.monotonic()
        if self._process is None and (now < self._not_before or not self._start(now)):
            return []
        out = []
        for at, text in self._records():
            found = self._lines.understand(text)
            if found is not None and now - at <= OLDEST_SECONDS:
                out.append(KernelXid(at, *found))
        if self._problem is None:
            self._read_at = now
        return out

    def health(self) -> SourceHealth:
        age = None if self._read_at is None else self._clock.monotonic() - self._read_at
        kind, error = self._problem or (None, None)
        return SourceHealth(ok=self._problem is None, kind=kind, error=error, age_seconds=age)

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(KILL_REAL_SECONDS)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def _start(self, now: float) -> bool:
        try:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
            )
        except OSError as error:
            self._problem = ("missing", f"{self._command[0]}: {error.strerror}. {ADVICE}")
            self._not_before = now + AGAIN_SECONDS
            return False
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
        self._rest = b""
        return True

    def _records(self) -> Iterator[tuple[float, str]]:
        """Seconds since boot and text of each whole line."""
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        data = _read(self._process.stdout, READ_BYTES)  # before the complaints: at its end they are all there
        complaint = (_read(self._process.stderr, MAX_LINE_BYTES) or b"").decode("utf-8", "replace").strip()
        if "not seeing messages" in complaint:
            self._problem = ("no_permission", f"journalctl: this user may not see the kernel's lines. {ADVICE}")
        elif data:
            self._problem = None
        *lines, self._rest = (self._rest + (data or b"")).split(b"\n")
        self._rest = self._rest[:MAX_LINE_BYTES]
        if data == b"" or self._process.poll() is not None:
            reason = complaint.partition("\n")[0][:200] or f"it ended with code {self._process.poll()}"
            self.close()
            self._problem = ("ended", f"journalctl: {reason}. {ADVICE}")
            self._not_before = self._clock.monotonic() + AGAIN_SECONDS
        for line in lines:
            if b"NVRM" in line:  # the others need not be decoded
                with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                    record = json.loads(line)
                    yield int(record["__MONOTONIC_TIMESTAMP"]) / 1e6, str(record["MESSAGE"])


def _read(stream: IO[bytes], size: int) -> bytes | None:
    """None: nothing now. Empty: the end."""
    out = b""
    while len(out) < size:
        try:
            data = os.read(stream.fileno(), size - len(out))
        except BlockingIOError:
            return out or None
        if not data:
            return out
        out += data
    return out
