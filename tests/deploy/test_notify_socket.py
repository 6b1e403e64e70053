"""Daemon and agent as processes: what they say to a manager's socket from the first cycle to the stop."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

DAEMON = """
daemon: {{listen: "127.0.0.1:0", database: {folder}/x.db, interval_seconds: {interval}}}
runs: [{{name: r1, nodes: "n[1-3]"}}]
channels: {{journal: {{console: {{}}}}}}
clock_scale: 20
"""
AGENT = """
agent: {{node: n1, listen: "127.0.0.1:0", interval_seconds: {interval}, logs: ["{folder}/x.log"]}}
clock_scale: 20
"""


@contextmanager
def managed(
    command: str, config: str, folder: Path, interval: int
) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    file = folder / "config.yaml"
    file.write_text(config.format(folder=folder, interval=interval))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(folder / "notify"))
        sock.settimeout(30)
        environ = {**os.environ, "NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "1000000"}
        process = subprocess.Popen(
            [sys.executable, "-m", "watcher", command, "--config", str(file)], env=environ,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield process, sock
        finally:
            process.kill()
            process.wait()


def hear(sock: socket.socket, wanted: str) -> list[str]:
    """The lines up to the first that begins with `wanted`."""
    lines: list[str] = []
    while not any(line.startswith(wanted) for line in lines):
        lines += sock.recv(4096).decode().split("\n")
    return lines


@pytest.mark.parametrize(("command", "config"), [("daemon", DAEMON), ("agent", AGENT)])
def test_a_process_says_when_it_is_ready_that_it_works_and_when_it_stops(command, config, tmp_path):
    with managed(command, config, tmp_path, 1) as (process, sock):
        lines = hear(sock, "READY=1") + hear(sock, "WATCHDOG=1")
        lines += hear(sock, "WATCHDOG=1")
        (patience,) = [line for line in lines if line.startswith("WATCHDOG_USEC=")]
        assert patience == "WATCHDOG_USEC=1800000"  # 36 s of a clock that runs 20 times faster
        process.send_signal(signal.SIGTERM)
        hear(sock, "STOPPING=1")
        assert process.wait(20) == 0


def test_a_daemon_says_how_many_of_its_nodes_answer(tmp_path):
    with managed("daemon", DAEMON, tmp_path, 1) as (_, sock):
        status = [line for line in hear(sock, "STATUS=") if line.startswith("STATUS=")]
        assert status == ["STATUS=watching 1 run on 3 nodes, 0 answering; 0 open"]
