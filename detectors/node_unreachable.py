"""No answer from a node's agent, three polls running; many at once are one finding about the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from detectors._moving import stands_still
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.telemetry import NodeView
from detectors.verdict import Finding, Severity, Subject, Verdict, firing

HINT = (
    "From another host: ping the node; on it: systemctl status runwatch-agent, or its exporter. Its GPUs are unknown."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUnreachableConfig:
    """`polls` failures running; `many_ratio` of the nodes (and at least `many_nodes`) at once are one finding.
    `progress_seconds`: the run counts as stopped too when it made no progress for this long."""

    polls: int = 3
    many_nodes: int = 3
    many_ratio: float = 0.25
    progress_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class NodeUnreachable:
    config: NodeUnreachableConfig

    def check(self, frame: Frame) -> Verdict:
        config = self.config
        silent = [node for node in frame.nodes if node.failures_running >= config.polls]
        unsure = [node.name for node in frame.nodes if 0 < node.failures_running < config.polls]
        severity = Severity.CRITICAL if stands_still(frame, config.progress_seconds) else Severity.WARNING
        if len(silent) >= max(config.many_nodes, config.many_ratio * len(frame.nodes)):
            return firing([self._many(frame, silent, severity)], unsure)
        return firing([self._one(frame, node, severity) for node in silent], unsure)

    def _one(self, frame: Frame, node: NodeView, severity: Severity) -> Finding:
        return Finding(
            signature="node_unreachable",
            subject=Subject(run=frame.run, node=node.name),
            severity=severity,
            summary=f"{node.name} does not answer, {node.failures_running} polls running: {node.error or 'no answer'}",
            evidence={"node": node.name, "failures": node.failures_running, "answered_at": node.answered_at},
            hint=HINT,
            since_at=node.answered_at,
        )

    def _many(self, frame: Frame, silent: Sequence[NodeView], severity: Severity) -> Finding:
        names = [node.name for node in silent]
        total = len(frame.nodes)
        what = "all" if len(silent) == total else f"{len(silent)} of {total}"
        return Finding(
            signature="node_unreachable",
            subject=Subject(run=frame.run),
            severity=severity,
            summary=f"{what} nodes of {frame.run} stopped answering at once: look at the network first",
            evidence={"nodes_silent": names[:64], "nodes_silent_count": len(names), "nodes_total": total},
            hint="Check the way from the daemon to the cluster first; the nodes may be well.",
        )


PLUGIN = Plugin("node_unreachable", NodeUnreachableConfig, NodeUnreachable)
