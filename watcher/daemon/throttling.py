"""For what share of the last five to ten minutes each reason held the clocks of a GPU down. Pure and bounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from detectors.telemetry import GpuReading

ANCHOR_SECONDS = 300.0
LEAST_SECONDS = 120.0  # of looking before a share is one
GAP_SECONDS = 120.0  # between two readings, after which looking begins anew


@dataclass(slots=True)
class Held:
    """Since the first reading, up to `at`: how long was looked, and how long each reason held the clocks down."""

    at: float
    seen_seconds: float = 0.0
    held_seconds: dict[str, float] = field(default_factory=dict)

    def copy(self) -> Held:
        return Held(self.at, self.seen_seconds, dict(self.held_seconds))


@dataclass(slots=True)
class Throttling:
    """`shares`: UUID -> reason -> share of the time, once that is known."""

    _now: dict[str, Held] = field(default_factory=dict)
    _older: dict[str, Held] = field(default_factory=dict)
    _newer: dict[str, Held] = field(default_factory=dict)
    shares: dict[str, Mapping[str, float]] = field(default_factory=dict)

    def add(self, at: float, gpu: GpuReading) -> None:
        ratios = gpu.throttle_ratios
        if ratios is None:
            return
        before = self._now.get(gpu.uuid)
        if before is None or at - before.at > GAP_SECONDS:
            for known in (self._now, self._older, self._newer, self.shares):
                known.pop(gpu.uuid, None)
        now = self._now.setdefault(gpu.uuid, Held(at))
        step = max(0.0, at - now.at)
        now.at, now.seen_seconds = at, now.seen_seconds + step
        for reason, ratio in ratios.items():
            now.held_seconds[reason] = now.held_seconds.get(reason, 0.0) + ratio * step
        older = self._older.setdefault(gpu.uuid, now.copy())
        newer = self._newer.setdefault(gpu.uuid, now.copy())
        if at - newer.at >= ANCHOR_SECONDS:
            self._older[gpu.uuid], self._newer[gpu.uuid] = newer, now.copy()
            older = newer
        seen = now.seen_seconds - older.seen_seconds
        if seen >= LEAST_SECONDS:
            self.shares[gpu.uuid] = {
                reason: (held - older.held_seconds.get(reason, 0.0)) / seen for reason, held in now.held_seconds.items()
            }
