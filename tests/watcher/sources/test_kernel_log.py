"""What the kernel says of GPUs, from a file in the form of /dev/kmsg."""

from __future__ import annotations

import os

import pytest

from watcher.clock import FakeClock
from watcher.sources.kernel_log import KernelLog


@pytest.fixture
def clock() -> FakeClock:
    clock = FakeClock()
    clock.advance(10_000)
    return clock


def record(at: float, text: str, number: int = 1) -> str:
    return f"4,{number},{int(at * 1e6)},-;{text}\n SUBSYSTEM=pci\n"


def read(tmp_path, clock, *records: str):
    """Each record comes with a read of its own, as the kernel gives them."""
    pipe = tmp_path / "kmsg"
    os.mkfifo(pipe)
    log = KernelLog(clock, pipe)
    assert log.read() == []
    writer = os.open(pipe, os.O_WRONLY)
    found = []
    for text in records:
        os.write(writer, text.encode())
        found += log.read()
    os.close(writer)
    log.close()
    return found


@pytest.mark.parametrize(
    ("text", "code", "pci"),
    [
        ("NVRM: Xid (PCI:0000:1b:00): 79, pid=7, name=python, GPU has fallen off the bus.", 79, "0000:1b:00"),
        ("NVRM: Xid (PCI:0000:3b:00.0): 31, pid=9, Ch 0008, intr 1", 31, "0000:3b:00.0"),
        ("NVRM: Xid (0000:03:00): 13, Graphics Exception", 13, "0000:03:00"),
        ("NVRM: Xid (PCI:000f:41:00 GPU-I:05): 94, Contained: SM (0x1)", 94, "000f:41:00"),
        ("NVRM: Xid (PCI:0000:65:00): 154, GPU recovery action changed", 154, "0000:65:00"),
        ("NVRM: GPU at PCI:0000:ca:00.0: GPU-aabb has fallen off the bus.", 79, "0000:ca:00"),
        ("NVRM: GPU 0000:ca:00.0: GPU has fallen off the bus.", 79, "0000:ca:00"),
    ],
)
def test_each_form_of_an_xid_is_understood(tmp_path, clock, text, code, pci):
    (xid,) = read(tmp_path, clock, record(9_990, text))
    assert (xid.at, xid.code, xid.pci_bus_id) == (9_990, code, pci)


def test_a_card_that_fell_off_the_bus_over_several_lines_and_without_a_number_is_one(tmp_path, clock):
    lines = (
        "NVRM: The NVIDIA GPU 0000:41:00.0",
        "NVRM: (PCI ID: 10de:2330) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    )
    (xid,) = read(tmp_path, clock, *(record(9_999, text) for text in lines))
    assert (xid.code, xid.pci_bus_id) == (79, "0000:41:00.0")


def test_what_is_older_than_ten_minutes_is_history(tmp_path, clock):
    texts = (record(at, "NVRM: Xid (PCI:0000:1b:00): 48, DBE") for at in (100, 9_399, 9_401))
    assert [xid.at for xid in read(tmp_path, clock, *texts)] == [9_401]


def test_other_lines_and_broken_ones_are_passed_over(tmp_path, clock):
    odd = ("usb 1-1: new device", "NVRM: loading NVIDIA UNIX x86_64 Kernel Module", "NVRM: Xid (PCI:0000:1b:00): x")
    assert read(tmp_path, clock, "no header at all\n", "4,1;x\n", *(record(9_999, text) for text in odd)) == []


def test_a_log_that_cannot_be_read_says_why_and_is_tried_again(tmp_path, clock):
    path = tmp_path / "kmsg"
    log = KernelLog(clock, path)
    assert log.read() == []
    assert (log.health().ok, log.health().kind) == (False, "missing")
    path.write_text(record(9_999, "NVRM: Xid (PCI:0000:1b:00): 48, DBE"))
    assert [xid.code for xid in log.read()] == [48]
    assert log.health().ok
    log.close()
