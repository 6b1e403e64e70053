"""A node's clock differs from the daemon's: times in its log, and the order of errors over ranks, cannot be trusted."""

from __future__ import annotations

from dataclasses import dataclass

from detectors._alike import NAMED, are_many
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.telemetry import NodeView
from detectors.verdict import Finding, Severity, Subject, Verdict, firing

HINT = "chronyc tracking (or timedatectl timesync-status) on the node; the first error of a crash may be named wrongly."


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSkewConfig:
    """`limit_seconds` either way, with the way of the answer in it."""

    limit_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class ClockSkew:
    config: ClockSkewConfig

    def check(self, frame: Frame) -> Verdict:
        unsure = [node.name for node in frame.nodes if node.skew_seconds is None or node.failures_running]
        off = [
            (node, node.skew_seconds)
            for node in frame.nodes
            if node.skew_seconds is not None
            and not node.failures_running
            and abs(node.skew_seconds) > self.config.limit_seconds
        ]
        if are_many(off, frame.nodes):
            return firing([self._many(frame, off)], unsure)
        return firing([self._one(frame, node, skew) for node, skew in off], unsure)

    def _one(self, frame: Frame, node: NodeView, skew: float) -> Finding:
        return Finding(
            signature="clock_skew",
            subject=Subject(run=frame.run, node=node.name),
            severity=Severity.WARNING,
            summary=f"The clock of {node.name} is {abs(skew):.1f} s {'ahead' if skew > 0 else 'behind'}",
            evidence={"node": node.name, "skew_seconds": round(skew, 2), "limit_seconds": self.config.limit_seconds},
            hint=HINT,
        )

    def _many(self, frame: Frame, off: list[tuple[NodeView, float]]) -> Finding:
        worst = max((skew for _, skew in off), key=abs)
        return Finding(
            signature="clock_skew",
            subject=Subject(run=frame.run),
            severity=Severity.WARNING,
            summary=f"Clocks of {len(off)} of {len(frame.nodes)} nodes are off by up to {worst:+.1f} s",
            evidence={
                "nodes": [node.name for node, _ in off[:NAMED]],
                "nodes_count": len(off),
                "skew_seconds_worst": round(worst, 2),
            },
            hint="So many at once: look at the clock of the daemon's own host first (chronyc tracking).",
        )


PLUGIN = Plugin("clock_skew", ClockSkewConfig, ClockSkew)
