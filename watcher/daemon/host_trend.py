"""What a node's memory, ports and processes did over the last hour, from one reading to the next. Pure and bounded."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from detectors.telemetry import HostReading

POINT_SECONDS = 60.0
POINTS = 60
FLAPS = 16  # of each port
# less than this is nothing: threads that wake up to look around, an agent that is asked, heartbeats of a mount
QUIET_CORES_PER_GPU = 0.05
QUIET_DISK_BYTES_PER_SECOND = 100e3
QUIET_NETWORK_BYTES_PER_SECOND = 1e6


@dataclass(slots=True)
class HostTrend:
    memory: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=POINTS))
    flaps: dict[str, deque[float]] = field(default_factory=dict)
    quiet_since: float | None = (
        None  # the run's processes use neither CPU nor disk nor network; None: they do, or who knows
    )
    _counts: dict[str, int] = field(default_factory=dict)

    def add(self, at: float, host: HostReading, gpus: int = 1) -> None:
        """The memory that fills first counts: the run's own limit where it has one, else the node's."""
        used, total = host.run_memory_bytes, host.run_memory_limit_bytes
        if used is None or not total:
            used, total = host.memory_used_bytes, host.memory_total_bytes
        if used is not None and total and (not self.memory or at - self.memory[-1][0] >= POINT_SECONDS):
            self.memory.append((at, used / total))
        quiet = _is_quiet(host, gpus)
        self.quiet_since = (at if self.quiet_since is None else self.quiet_since) if quiet else None
        for port, count in host.link_flaps.items():
            if count > self._counts.get(port, count):
                self.flaps.setdefault(port, deque(maxlen=FLAPS)).append(at)
            self._counts[port] = count


def _is_quiet(host: HostReading, gpus: int) -> bool:
    rates = (
        (host.run_cpu_cores, QUIET_CORES_PER_GPU * max(1, gpus)),
        (host.run_read_bytes_per_second, QUIET_DISK_BYTES_PER_SECOND),
        (host.run_write_bytes_per_second, QUIET_DISK_BYTES_PER_SECOND),
        (host.network_bytes_per_second, QUIET_NETWORK_BYTES_PER_SECOND),
    )
    return all(rate is not None and rate < limit for rate, limit in rates)
