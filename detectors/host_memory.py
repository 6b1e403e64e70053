"""The node's memory or shared memory is nearly full: the kernel will kill the run, or its data loader will die."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.telemetry import HostReading, NodeView
from detectors.verdict import Finding, Severity, Subject, Verdict, firing

HINT = "ps --sort=-rss on the node: a loader that leaks grows from epoch to epoch; df -h /dev/shm for shared memory."


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMemoryConfig:
    """Shares in use of memory (or the limit of the run's control group), shared memory and disks."""

    memory_ratio: float = 0.95
    shm_ratio: float = 0.95
    disk_ratio: float = 0.98


@dataclass(frozen=True, slots=True)
class HostMemory:
    config: HostMemoryConfig

    def check(self, frame: Frame) -> Verdict:
        blind = [node.name for node in frame.nodes if node.host is None]
        findings = (
            self._finding(frame, node, full)
            for node in frame.nodes
            if node.host is not None and (full := list(self._full(node.host)))
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
