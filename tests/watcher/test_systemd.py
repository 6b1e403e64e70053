"""What systemd hears: ready, a sign of life after cycles that worked and no others, and a status line."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from watcher.systemd import MAX_STATUS_CHARS, Systemd


@pytest.fixture
def heard(tmp_path):
    """A manager's socket: its path, and what came since the last call."""
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(path))
        sock.setblocking(False)

        def messages() -> list[str]:
            out = []
            while True:
                try:
                    out.append(sock.recv(4096).decode())
                except BlockingIOError:
                    return out

        yield path, messages


def manager(path: Path | str, usec: str | None = None, **environ: str) -> Systemd:
    limit = {} if usec is None else {"WATCHDOG_USEC": usec}
    return Systemd.of({"NOTIFY_SOCKET": str(path), **limit, **environ})


def test_only_cycles_that_worked_are_signs_of_life(heard):
    path, messages = heard
    systemd = manager(path, "90000000")
    systemd.worked("watching 1 run")
    systemd.failed("the last cycle failed")
    systemd.failed("the last cycle failed")
    systemd.worked("watching 1 run")
    systemd.worked("watching 1 run")
    assert messages() == [
        "WATCHDOG=1\nSTATUS=watching 1 run", "STATUS=the last cycle failed",
        "WATCHDOG=1\nSTATUS=watching 1 run", "WATCHDOG=1",
    ]  # fmt: skip


def test_a_watchdog_that_is_shorter_than_the_patience_is_lengthened(heard):
    path, messages = heard
    manager(path, "90000000").ready(90.0)
    manager(path, "90000000").ready(1830.0)
    manager(path).ready(1830.0)
    assert messages() == ["READY=1", "READY=1\nWATCHDOG_USEC=1830000000", "READY=1"]


def test_a_watchdog_of_another_process_or_none_is_not_ours(heard):
    path, _ = heard
    assert manager(path, "90000000", WATCHDOG_PID="1").watchdog_seconds is None
    assert manager(path, "0").watchdog_seconds is None
    assert manager(path, "soon").watchdog_seconds is None
    assert manager(path, "2000000").watchdog_seconds == 2.0


def test_a_status_is_one_bounded_line_and_forges_no_other(heard):
    path, messages = heard
    manager(path).failed("broken\nREADY=1\n" + "x" * 1000)
    (message,) = messages()
    assert message.startswith("STATUS=broken READY=1 x")
    assert "\n" not in message
    assert len(message) == len("STATUS=") + MAX_STATUS_CHARS


def test_an_abstract_socket_is_reached():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind("")  # the kernel gives it a name
        manager("@" + sock.getsockname()[1:].decode()).stopping()
        sock.setblocking(False)
        assert sock.recv(4096) == b"STOPPING=1"


def test_where_nobody_listens_nothing_fails(tmp_path):
    for systemd in (Systemd.of({}), manager(tmp_path / "gone", "90000000")):
        systemd.ready(30.0)
        systemd.worked("fine")
        systemd.failed("not fine")
        systemd.stopping()


def test_a_manager_that_does_not_read_holds_up_nothing(heard):
    path, _ = heard
    systemd = manager(path)
    for number in range(2000):  # far more than a socket's queue holds
        systemd.worked(str(number))
