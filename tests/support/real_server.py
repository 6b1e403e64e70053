"""Starts the real servers that Debian packages: a process of its own, ready when it says so, gone at the end."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
import requests

READY_SECONDS = 30.0
T = TypeVar("T")


def tool(name: str, package: str) -> str:
    """The path of a program. Where it is missing the test is skipped, in CI it fails."""
    path = shutil.which(name)
    if path is None:
        reason = f"needs {name} (Debian package {package})"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


def eventually(look: Callable[[], T], seconds: float, what: str) -> T:
    """The first answer that is true. AssertionError with the last one after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (answer := look()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}; last: {answer!r}"
        time.sleep(0.05)
    return answer


@contextmanager
def running(command: Callable[[int], Sequence[str]], log: Path, ready_path: str) -> Iterator[str]:
    """`command` takes the port on 127.0.0.1 to listen on. Gives the root URL once `ready_path` answers 200."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as out:
        process = subprocess.Popen(command(port), stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        eventually(lambda: _ready(process, url + ready_path, log), READY_SECONDS, f"{command(port)[0]} is ready")
        yield url
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _ready(process: subprocess.Popen[bytes], url: str, log: Path) -> bool:
    assert process.poll() is None, f"it ended with {process.returncode}: {log.read_text()[-2000:]}"
    try:
        return requests.get(url, timeout=2).status_code == 200
    except requests.ConnectionError:
        return False


def free_port() -> int:
    """On loopback; nobody had it a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
