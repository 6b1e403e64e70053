"""XIDs of all sources as one list: what NVML and the kernel log both say is one event; every repeat counts."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass

from detectors.telemetry import GpuReading

SAME_SECONDS = 60.0  # two sources tell of one event within this time
FALLEN = 79
FALLEN_SECONDS = 300.0  # a card falls off the bus once, however often that is said
KEPT = 500


@dataclass(frozen=True, slots=True)
class Xid:
    source: str  # nvml | kernel_log
    at: float  # monotonic seconds
    code: int
    gpu_uuid: str | None
    pci_bus_id: str | None
    message: str = ""


class XidJournal:
    """`add` answers the events that are new. `counts`: per (UUID or PCI address or "", code) since the start."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, int]] = Counter()
        self._recent: deque[tuple[Xid, set[str]]] = deque(maxlen=KEPT)

    def add(self, xid: Xid) -> bool:
        for other, told_by in self._recent:
            if other.code != xid.code or not _same_gpu(other, xid):
                continue
            apart = abs(other.at - xid.at)
            if xid.code == FALLEN and apart <= FALLEN_SECONDS:
                return False
            if xid.source not in told_by and apart <= SAME_SECONDS:  # each source says it once
                told_by.add(xid.source)
                return False
        self._recent.append((xid, {xid.source}))
        self.counts[xid.gpu_uuid or xid.pci_bus_id or "", xid.code] += 1
        return True


def find_gpu(gpus: Iterable[GpuReading], *, uuid: str | None = None, pci: str | None = None) -> GpuReading | None:
    """By UUID or by PCI address, however that is written."""
    wanted = pci_numbers(pci)
    for gpu in gpus:
        if uuid is not None and gpu.uuid == uuid:
            return gpu
        if wanted is not None and pci_numbers(gpu.pci_bus_id) == wanted:
            return gpu
    return None


def pci_numbers(text: str | None) -> tuple[int, int, int] | None:
    """Domain, bus and device of `0000:1b:00`, `00000000:1B:00.0` and their like."""
    parts = (text or "").partition(".")[0].split(":")
    if len(parts) == 2:
        parts.insert(0, "0")
    try:
        domain, bus, device = (int(part, 16) for part in parts)
    except ValueError:
        return None
    return domain, bus, device


def _same_gpu(one: Xid, other: Xid) -> bool:
    if one.gpu_uuid is not None and other.gpu_uuid is not None:
        return one.gpu_uuid == other.gpu_uuid
    one_place, other_place = pci_numbers(one.pci_bus_id), pci_numbers(other.pci_bus_id)
    return one_place is not None and one_place == other_place
