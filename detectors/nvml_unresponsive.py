"""The driver of a node answers nothing: its readings hang or kill the reader. Its GPUs may work or not."""

from __future__ import annotations

from dataclasses import dataclass

from detectors._alike import NAMED, are_many
from detectors._moving import stands_still
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.telemetry import NodeView, SourceHealth
from detectors.verdict import Finding, Severity, Subject, Verdict, firing

KINDS = ("stuck", "crashed")
HINT = "On the node: timeout 20 nvidia-smi; dmesg -T | grep -iE 'xid|nvrm'; processes in state D. It may need a reboot."


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlUnresponsiveConfig:
    """The agent says when the driver is stuck. `progress_seconds`: the run counts as stopped after so long without
    progress, and then it is a page."""

    progress_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class NvmlUnresponsive:
    config: NvmlUnresponsiveConfig

    def check(self, frame: Frame) -> Verdict:
        unsure = [node.name for node in frame.nodes if "nvml" not in node.health or node.failures_running]
        dead = [
            (node, health)
            for node in frame.nodes
            if not node.failures_running
            and (health := node.health.get("nvml")) is not None
            and not health.ok
            and health.kind in KINDS
        ]
        severity = Severity.CRITICAL if stands_still(frame, self.config.progress_seconds) else Severity.WARNING
        if are_many(dead, frame.nodes):
            return firing([self._many(frame, dead, severity)], unsure)
        return firing([self._one(frame, node, health, severity) for node, health in dead], unsure)

    def _one(self, frame: Frame, node: NodeView, health: SourceHealth, severity: Severity) -> Finding:
        which = "A GPU" if node.gpus_fresh else "The GPU driver"
        also = ", and the run makes no progress" if severity == Severity.CRITICAL else ""
        return Finding(
            signature="nvml_unresponsive",
            subject=Subject(run=frame.run, node=node.name),
            severity=severity,
            summary=f"{which} of {node.name} does not answer: {health.error or health.kind}{also}",
            evidence={"node": node.name, "kind": health.kind, "silent_seconds": health.age_seconds},
            hint=HINT,
            since_at=None if health.age_seconds is None else frame.now - health.age_seconds,
        )

    def _many(self, frame: Frame, dead: list[tuple[NodeView, SourceHealth]], severity: Severity) -> Finding:
        return Finding(
            signature="nvml_unresponsive",
            subject=Subject(run=frame.run),
            severity=severity,
            summary=f"The GPU drivers of {len(dead)} of {len(frame.nodes)} nodes do not answer",
            evidence={"nodes": [node.name for node, _ in dead[:NAMED]], "nodes_count": len(dead)},
            hint="So many at once: an update of the driver, a tool that asks too much, or a shared file system.",
        )


PLUGIN = Plugin("nvml_unresponsive", NvmlUnresponsiveConfig, NvmlUnresponsive)
