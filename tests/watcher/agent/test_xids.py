"""XIDs of NVML and of the kernel log as one list of events."""

from __future__ import annotations

import asyncio

import pytest

from detectors.telemetry import GpuReading, SourceHealth
from watcher.agent.app import Agent
from watcher.agent.xids import Xid, XidJournal, find_gpu, pci_numbers
from watcher.clock import FakeClock
from watcher.config.agent import AgentConfig
from watcher.sources.kernel_log import KernelXid
from watcher.sources.nvml import GpuReadings

GPUS = (
    GpuReading(uuid="GPU-a", index=0, pci_bus_id="00000000:1B:00.0"),
    GpuReading(uuid="GPU-b", index=1, pci_bus_id="0000000F:01:00.0"),
)


def nvml(at: float, code: int, uuid: str | None = "GPU-a") -> Xid:
    return Xid("nvml", at, code, uuid, None)


def kernel(at: float, code: int, uuid: str | None = "GPU-a", pci: str = "0000:1b:00") -> Xid:
    return Xid("kernel_log", at, code, uuid, pci)


@pytest.mark.parametrize(
    ("xids", "kept", "why"),
    [
        ([nvml(10, 48), kernel(2, 48)], 1, "both sources tell of one event"),
        ([kernel(2, 48), nvml(10, 48)], 1, "whichever is first"),
        ([nvml(10, 48), nvml(11, 48)], 2, "one source says it twice: it happened twice"),
        ([nvml(10, 13), nvml(11, 13), kernel(9, 13), kernel(9, 13)], 2, "each is matched with one"),
        ([nvml(10, 48), kernel(200, 48)], 2, "too far apart to be one"),
        ([nvml(10, 48), kernel(10, 63)], 2, "another code"),
        ([nvml(10, 48), kernel(10, 48, "GPU-b", "000f:01:00")], 2, "another GPU"),
        ([kernel(10, 79), kernel(12, 79), nvml(250, 79)], 1, "a card falls off the bus once"),
        ([kernel(10, 48, None), kernel(90, 48, None)], 2, "an unknown card is told by its address"),
    ],
)
def test_one_event_is_one_and_every_repeat_counts(xids, kept, why):
    journal = XidJournal()
    assert sum(journal.add(xid) for xid in xids) == kept, why
    assert journal.counts.total() == kept


@pytest.mark.parametrize("text", ["0000000F:01:00.0", "000f:01:00", "f:1:0", "000F:01:00.0"])
def test_an_address_is_the_same_however_it_is_written(text):
    assert pci_numbers(text) == (15, 1, 0)
    assert find_gpu(GPUS, pci=text).uuid == "GPU-b"


@pytest.mark.parametrize("text", [None, "", "nonsense", "1:2:3:4", "zz:00:00"])
def test_what_is_no_address_is_of_no_card(text):
    assert pci_numbers(text) is None
    assert find_gpu(GPUS, pci=text) is None


class Gpus:
    """One reading after the other."""

    replacements_count = 0
    reading_seconds = None
    latest: GpuReadings | None = None

    def __init__(self, *readings: GpuReadings) -> None:
        self._readings = list(readings)

    async def poll(self, deadline_seconds: float) -> None:
        if self._readings:
            self.latest = self._readings.pop(0)

    def health(self) -> SourceHealth:
        return SourceHealth(ok=True)


class Kernel:
    def __init__(self, *reads: list[KernelXid]) -> None:
        self._reads = list(reads)

    def read(self) -> list[KernelXid]:
        return self._reads.pop(0) if self._reads else []

    def health(self) -> SourceHealth:
        return SourceHealth(ok=True)


def test_the_snapshot_carries_each_xid_once_with_its_card_and_its_age():
    clock = FakeClock()
    clock.advance(100)
    config = AgentConfig.model_validate({"agent": {"node": "n01"}}).agent
    gpus = Gpus(GpuReadings(GPUS, 100.0, xids=((48, "GPU-a"),)), GpuReadings(GPUS, 110.0))
    told = Kernel([KernelXid(98.0, 48, "0000:1b:00", "DBE")], [KernelXid(105.0, 63, "000f:01:00", "row remap")])
    agent = Agent(config, clock, gpus, None, kernel_log=told)

    async def play() -> None:
        for _ in range(4):
            await agent.cycle()
            clock.advance(10)

    asyncio.run(play())
    events = agent.snapshot(None).events
    assert [(e.kind, e.code, e.gpu_uuid, e.pci_bus_id) for e in events] == [
        ("xid", 48, "GPU-a", "00000000:1B:00.0"),
        ("xid", 63, "GPU-b", "0000000F:01:00.0"),
    ]
    assert events[1].message == "row remap"
    assert events[1].age_seconds == 35.0
    assert agent.xids.counts == {("GPU-a", 48): 1, ("GPU-b", 63): 1}
