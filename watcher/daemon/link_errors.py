"""How fast the error counters of a node's GPU links grow, over the last five to ten minutes. Pure and bounded."""

from __future__ import annotations

from dataclasses import dataclass, field

from detectors.telemetry import GpuReading

ANCHOR_SECONDS = 300.0
LEAST_SECONDS = 60.0  # of looking before a rate is one

Counts = tuple[float, int | None, int | None]  # when, PCIe replays, NVLink errors


@dataclass(slots=True)
class LinkErrors:
    """Two counts of each GPU to compare with; a counter that falls was reset and starts anew."""

    _older: dict[str, Counts] = field(default_factory=dict)
    _newer: dict[str, Counts] = field(default_factory=dict)
    rates: dict[str, tuple[float, float]] = field(default_factory=dict)  # uuid -> PCIe, NVLink a minute, if any grows

    def add(self, at: float, gpu: GpuReading) -> None:
        pcie, nvlink = gpu.pcie_replay_count, gpu.nvlink_error_count
        if pcie is None and nvlink is None:
            return
        now = (at, pcie, nvlink)
        older = self._older.setdefault(gpu.uuid, now)
        newer = self._newer.setdefault(gpu.uuid, now)
        if _fell(newer, now):
            self._older[gpu.uuid] = self._newer[gpu.uuid] = older = now
        elif at - newer[0] >= ANCHOR_SECONDS:
            self._older[gpu.uuid], self._newer[gpu.uuid] = newer, now
            older = newer
        self.rates.pop(gpu.uuid, None)
        seconds = at - older[0]
        grown = (_grown(older[1], pcie), _grown(older[2], nvlink))
        if seconds >= LEAST_SECONDS and any(grown):
            self.rates[gpu.uuid] = (60 * grown[0] / seconds, 60 * grown[1] / seconds)


def _grown(before: int | None, now: int | None) -> int:
    return 0 if before is None or now is None else now - before


def _fell(before: Counts, now: Counts) -> bool:
    return _grown(before[1], now[1]) < 0 or _grown(before[2], now[2]) < 0
