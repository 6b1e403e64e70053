"""Simulated GPUs where the agent has its NVML child; the rest of the agent is the real one."""

from __future__ import annotations

from detectors.telemetry import SourceHealth
from watcher.clock import Clock
from watcher.simulate.fleet import Fleet
from watcher.sources.nvml import GpuReadings


class SimulatedGpus:
    """One node of a fleet, from `started_at` (unix seconds of the clock) on."""

    name = "nvml"
    replacements_count = 0
    reading_seconds: float | None = None
    released = False

    def __init__(self, fleet: Fleet, node: str, clock: Clock, started_at: float) -> None:
        self._fleet, self._node, self._clock, self._started_at = fleet, node, clock, started_at
        self.latest: GpuReadings | None = None

    async def poll(self, deadline_seconds: float) -> None:
        readings = self._fleet.readings(self._node, self._clock.time() - self._started_at)
        self.latest = GpuReadings(readings, self._clock.monotonic())

    def health(self) -> SourceHealth:
        age = None if self.latest is None else self._clock.monotonic() - self.latest.read_at
        return SourceHealth(ok=self.latest is not None, age_seconds=age)

    async def release(self) -> None:
        self.latest = None

    def resume(self) -> None:
        return

    async def close(self) -> None:
        return
