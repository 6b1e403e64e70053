"""What a node's memory and ports did over the last hour, from one reading to the next. Pure and bounded."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from detectors.telemetry import HostReading

POINT_SECONDS = 60.0
POINTS = 60
FLAPS = 16  # of each port


@dataclass(slots=True)
class HostTrend:
    memory: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=POINTS))
    flaps: dict[str, deque[float]] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def add(self, at: float, host: HostReading) -> None:
        """The memory that fills first counts: the run's own limit where it has one, else the node's."""
        used, total = host.run_memory_bytes, host.run_memory_limit_bytes
        if used is None or not total:
            used, total = host.memory_used_bytes, host.memory_total_bytes
        if used is not None and total and (not self.memory or at - self.memory[-1][0] >= POINT_SECONDS):
            self.memory.append((at, used / total))
        for port, count in host.link_flaps.items():
            if count > self._counts.get(port, count):
                self.flaps.setdefault(port, deque(maxlen=FLAPS)).append(at)
            self._counts[port] = count
