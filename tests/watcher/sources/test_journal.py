"""The kernel's lines from the journal: a process that writes them, ends, complains, or is not there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from threading import Event

import pytest

from detectors.telemetry import SourceHealth
from watcher.clock import FakeClock
from watcher.sources.journal import Journal
from watcher.sources.kernel import Kernel
from watcher.sources.kernel_log import KernelLog, KernelXid

XID = "NVRM: Xid (PCI:0000:1b:00): 48, pid=7, DBE"


@pytest.fixture
def clock() -> FakeClock:
    clock = FakeClock()
    clock.advance(10_000)
    return clock


def line(at: float, message: object) -> str:
    return json.dumps({"__MONOTONIC_TIMESTAMP": str(int(at * 1e6)), "_TRANSPORT": "kernel", "MESSAGE": message}) + "\n"


def until(read: Callable[[], list[KernelXid]], wanted: Callable[[], bool]) -> list[KernelXid]:
    """What was read until it holds: the other process has its own pace."""
    found = []
    for _ in range(500):
        found += read()
        if wanted():
            return found
        Event().wait(0.01)
    raise AssertionError("not within five seconds")


def shell(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


def test_xids_come_with_their_time_and_what_is_old_or_odd_is_passed_over(tmp_path, clock):
    log = tmp_path / "lines"
    odd = ("usb 1-1: new device", "NVRM: loading", [78, 86, 82, 77], None, "NVRM: " + "x" * 100_000)
    lines = [line(9_999, text) for text in odd]
    lines += ["NVRM no JSON\n", '{"MESSAGE": "NVRM: Xid (PCI:0:1:0): 1"}\n', line(9_000, XID), line(9_990, XID)]
    log.write_text("".join(lines))
    journal = Journal(clock, shell(f"cat {log}; exec sleep 60"))
    found: list[KernelXid] = []
    until(lambda: found.extend(journal.read()) or [], lambda: bool(found))
    (xid,) = found
    assert (xid.at, xid.code, xid.pci_bus_id) == (9_990, 48, "0000:1b:00")
    journal.close()


def test_lines_that_come_in_pieces_are_read_whole(tmp_path, clock):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    journal = Journal(clock, ("cat", str(pipe)))
    assert journal.read() == []
    assert (journal.health().ok, journal.health().kind) == (False, "silent")
    whole = line(9_999, XID).encode()
    with pipe.open("wb", buffering=0) as writer:
        writer.write(whole[:40])
        assert until(journal.read, lambda: journal.health().ok) == []
        writer.write(whole[40:])
        found: list[KernelXid] = []
        until(lambda: found.extend(journal.read()) or [], lambda: bool(found))
        assert [xid.code for xid in found] == [48]
    journal.close()


def test_a_process_that_ends_is_told_with_its_words_and_started_again_after_a_minute(clock, tmp_path):
    starts = tmp_path / "starts"
    words = "echo No journal files were opened due to insufficient permissions. >&2"
    journal = Journal(clock, shell(f"echo x >> {starts}; {words}; exit 1"))
    until(journal.read, lambda: journal.health().kind == "ended")
    assert "insufficient permissions" in journal.health().error
    assert "systemd-journal" in journal.health().error
    journal.read()
    assert journal._process is None
    clock.advance(61)
    until(journal.read, lambda: starts.read_text().count("x") == 2)
    journal.close()


def test_a_user_that_may_not_see_the_kernel_is_told(clock):
    hint = "Hint: You are currently not seeing messages from other users and the system."
    journal = Journal(clock, shell(f"echo '{hint}' >&2; exec sleep 60"))
    until(journal.read, lambda: journal.health().kind == "no_permission")
    journal.close()


def test_no_journalctl_at_all_is_told(clock):
    journal = Journal(clock, ("/nowhere/journalctl",))
    assert journal.read() == []
    assert journal.health().kind == "missing"


class Scripted:
    def __init__(self, ok: bool, xids: list[KernelXid]) -> None:
        self.ok, self.xids, self.closed = ok, xids, 0

    def read(self) -> list[KernelXid]:
        return self.xids

    def health(self) -> SourceHealth:
        return SourceHealth(ok=self.ok, kind=None if self.ok else "no_permission")

    def close(self) -> None:
        self.closed += 1


def test_the_journal_is_read_only_while_the_log_itself_cannot_be(clock):
    one, other = KernelXid(1.0, 48, "a", ""), KernelXid(2.0, 63, "b", "")
    log, journal = Scripted(False, []), Scripted(True, [other])
    kernel = Kernel(clock, log, journal)
    assert (kernel.read(), kernel.health().ok) == ([other], True)
    log.ok, log.xids = True, [one]
    assert (kernel.read(), journal.closed) == ([one], 1)
    log.ok, journal.ok = False, False
    kernel.read()
    assert kernel.health().kind == "no_permission"


def test_a_log_that_may_not_be_read_gives_way_to_the_journal(tmp_path, clock):
    lines = tmp_path / "lines"
    lines.write_text(line(9_999, XID))
    kernel = Kernel(clock, KernelLog(clock, tmp_path / "no-kmsg"), Journal(clock, shell(f"cat {lines}; exec sleep 60")))
    assert [xid.code for xid in until(kernel.read, lambda: kernel.health().ok)] == [48]
    kernel.close()
