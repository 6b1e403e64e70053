"""The node's memory or shared memory is nearly full: the kernel will kill the run, or its data loader will die."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from detectors._stall import duration
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.telemetry import HostReading, NodeView
from detectors.verdict import Finding, Severity, Subject, Verdict, firing

HINT = "ps --sort=-rss on the node: a loader that leaks grows from epoch to epoch; df -h /dev/shm for shared memory."

EVEN_SHARE = 0.25  # of the growth in each half


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMemoryConfig:
    """Shares in use of memory (or the limit of the run's control group), shared memory and disks. A climb is judged
    over `climb_seconds`, from `climb_ratio` on, when it would be full within `full_within_seconds`."""

    memory_ratio: float = 0.95
    shm_ratio: float = 0.95
    disk_ratio: float = 0.98
    climb_seconds: float = 1800.0
    climb_ratio: float = 0.5
    full_within_seconds: float = 7200.0


@dataclass(frozen=True, slots=True)
class HostMemory:
    config: HostMemoryConfig

    def check(self, frame: Frame) -> Verdict:
        blind = [node.name for node in frame.nodes if node.host is None]
        findings = (
            self._finding(frame, node, full)
            for node in frame.nodes
            if node.host is not None and (full := [*self._full(node.host), *self._climbs(frame, node)])
        )
        return firing(findings, blind)

    def _full(self, host: HostReading) -> Iterator[str]:
        pairs = [
            ("memory", host.memory_used_bytes, host.memory_total_bytes, self.config.memory_ratio),
            ("memory of the run", host.run_memory_bytes, host.run_memory_limit_bytes, self.config.memory_ratio),
            ("/dev/shm", host.shm_used_bytes, host.shm_total_bytes, self.config.shm_ratio),
        ]
        pairs += [(f"disk {mount}", used, total, self.config.disk_ratio) for mount, (used, total) in host.disks.items()]
        for name, used, total, limit in pairs:
            if used is not None and total and used / total >= limit:
                yield f"{name} {used / total:.0%} full"

    def _climbs(self, frame: Frame, node: NodeView) -> Iterator[str]:
        """Memory that grows evenly, as a leak does; a step upwards is no climb."""
        config = self.config
        points = [(at, ratio) for at, ratio in node.memory_ratios if at >= frame.now - config.climb_seconds]
        if len(points) < 9 or points[-1][0] - points[0][0] < 0.9 * config.climb_seconds:
            return
        third = len(points) // 3
        first, middle, last = (
            median(ratio for _, ratio in part)
            for part in (points[:third], points[third : len(points) - third], points[len(points) - third :])
        )
        grown = last - first
        even = grown > 0 and min(middle - first, last - middle) >= EVEN_SHARE * grown
        if not even or last < config.climb_ratio:
            return
        per_second = grown / ((points[-1][0] - points[0][0]) * (1 - 1 / 3))
        left = (1 - points[-1][1]) / per_second
        if left <= config.full_within_seconds:
            yield f"memory climbs, {points[-1][1]:.0%} now, full in {duration(left)}"

    def _finding(self, frame: Frame, node: NodeView, full: list[str]) -> Finding:
        return Finding(
            signature="host_memory",
            subject=Subject(run=frame.run, node=node.name),
            severity=Severity.WARNING,
            summary=f"{node.name}: {', '.join(full[:4])}",
            evidence={"node": node.name, "full": full[:10]},
            hint=HINT,
        )


PLUGIN = Plugin("host_memory", HostMemoryConfig, HostMemory)
