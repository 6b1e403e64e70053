"""Something that should be watched cannot be seen. That is said as such: never "GPU dead", and never "healthy"."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from detectors._alike import NAMED, are_many
from detectors._shape import shape_of
from detectors._stall import duration, spin_since
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.telemetry import NodeView
from detectors.verdict import Finding, Severity, Subject, Verdict, firing

BUSY_SHARE = 0.5
NEVER_POLLS = 3
OTHERS_SAY = ("stuck", "crashed", "starting", "released")  # nvml_unresponsive, or nothing is wrong
DEAF = "the agent does not answer: logs, host and kernel log are not seen, GPUs are"
BLIND = "what tells of the GPUs does not answer: power and utilization are not known, the log is"
HINT = "runwatch doctor --config FILE says what cannot be seen and why; until then only the other signals count."


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringBlindConfig:
    """`unread_seconds`: GPUs work and lines come, and none was ever read as a step. `spin_seconds`: without any step,
    GPUs spin at low power for so long, which is longer than a save."""

    unread_seconds: float = 1800.0
    spin_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class MonitoringBlind:
    config: MonitoringBlindConfig

    def check(self, frame: Frame) -> Verdict:
        reasons: dict[str, list[NodeView]] = defaultdict(list)
        for node in frame.nodes:
            reason = _blind_to(node) or _deaf_to(node)
            if reason is not None:
                reasons[reason].append(node)
        unsure = [node.name for node in frame.nodes if node.reachable is not True]
        whole = [found for found in (self._no_agent(frame), self._unread(frame)) if found is not None]
        for reason, nodes in list(reasons.items()):
            if are_many(nodes, frame.nodes):
                names = [node.name for node in nodes]
                whole.append(_of_run(frame, f"{len(nodes)} of {len(frame.nodes)} nodes: {reason}", {"nodes": names}))
                del reasons[reason]
        findings = [_of_node(frame, node, reason) for reason, nodes in reasons.items() for node in nodes]
        return firing([*_as_one(whole), *findings], unsure)

    def _no_agent(self, frame: Frame) -> Finding | None:
        never = [node for node in frame.nodes if node.answered_at is None and node.failures_running >= NEVER_POLLS]
        if not never or len(never) < len(frame.nodes):
            return None
        keys = (f"{frame.run}/node_unreachable", *(f"{node.name}/node_unreachable" for node in never[:NAMED]))
        text = f"no agent of {frame.run} has ever answered: nothing is known of its GPUs"
        return _of_run(frame, text, {"nodes": [node.name for node in never]}, keys)

    def _unread(self, frame: Frame) -> Finding | None:
        """Steps are what decides; without them a hang and work cannot be told apart."""
        attempt, progress = frame.attempt, frame.progress
        ended = attempt.stopped or attempt.end_marker_at is not None or attempt.errors
        if ended or attempt.started_at is None:
            return None
        if progress.source and progress.hidden is None:
            return None
        if progress.hidden is None and frame.now - attempt.started_at <= self.config.unread_seconds:
            return None
        paths = {"logs": [f"{log.path}: {log.error or f'{log.lines} lines'}" for log in frame.log_sources[:8]]}
        shape = shape_of(frame)
        spins = frame.now - spin_since(frame) if shape.rows >= 3 and shape.spinning else 0.0
        if spins >= self.config.spin_seconds:
            text = f"GPUs spin at low power for {duration(spins)} and {_lack(frame)}: it may hang"
            return _of_run(frame, text, paths)
        if progress.hidden is not None:
            return None
        lately = progress.last_line_at is not None and frame.now - progress.last_line_at < self.config.unread_seconds
        if lately and shape.known and shape.busy >= BUSY_SHARE * shape.known:
            text = f"GPUs work, lines come, and none was read as a step for {duration(self.config.unread_seconds)}"
            return _of_run(frame, text, paths)
        return None


def _lack(frame: Frame) -> str:
    return frame.progress.hidden or "no step was ever read"


def _blind_to(node: NodeView) -> str | None:
    """Why the GPUs of a node that answers cannot be seen."""
    if node.reachable is not True:
        return None  # node_unreachable says that
    health = node.health.get("nvml")
    if health is not None and health.kind == "silent":
        return BLIND if node.silent_polls.get("nvml", 0) >= NEVER_POLLS else None
    if health is not None and not health.ok and health.kind not in OTHERS_SAY:
        return health.error or health.kind or "the driver refuses to answer"
    if any(gpu.mig for gpu in node.gpus):
        return "MIG is on: NVML gives no power and no utilization, the rules on power are off"
    return None


def _deaf_to(node: NodeView) -> str | None:
    """The agent is silent while something else tells of the node's GPUs."""
    silent = node.reachable is True and node.silent_polls.get("agent", 0) >= NEVER_POLLS
    return DEAF if silent else None


def _of_node(frame: Frame, node: NodeView, reason: str) -> Finding:
    return Finding(
        signature="monitoring_blind",
        subject=Subject(run=frame.run, node=node.name),
        severity=Severity.WARNING,
        summary=f"{node.name} cannot be seen wholly: {reason}"
        if reason in (DEAF, BLIND)
        else f"The GPUs of {node.name} cannot be seen: {reason}",
        evidence={"node": node.name, "reason": reason, "errors": _errors(node)},
        hint=HINT,
    )


def _errors(node: NodeView) -> list[str]:
    return [health.error[:200] for health in node.health.values() if health.kind == "silent" and health.error]


def _of_run(frame: Frame, text: str, evidence: dict[str, list[str]], keys: tuple[str, ...] = ()) -> Finding:
    return Finding(
        signature="monitoring_blind",
        subject=Subject(run=frame.run),
        severity=Severity.WARNING,
        summary=f"Watched with less than all eyes: {text}",
        evidence={name: values[:NAMED] for name, values in evidence.items()},
        hint=HINT,
        explained_by=keys,
    )


def _as_one(findings: list[Finding]) -> list[Finding]:
    """Several about the run are one incident: the first tells, the others stand beside it."""
    if len(findings) < 2:
        return findings
    first = findings[0]
    also = [finding.summary.split(": ", 1)[1] for finding in findings[1:]]
    return [
        Finding(
            signature=first.signature,
            subject=first.subject,
            severity=first.severity,
            summary=f"{first.summary}; also: {'; '.join(also)}",
            evidence={**first.evidence, "also": also},
            hint=first.hint,
        )
    ]


PLUGIN = Plugin("monitoring_blind", MonitoringBlindConfig, MonitoringBlind)
