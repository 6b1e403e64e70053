"""An attempt is placed on a node that was struck before it began: said at once, one strike before it is a page."""

from __future__ import annotations

from dataclasses import dataclass

from detectors._stall import duration
from detectors.frame import Frame, Strike
from detectors.registry import Plugin
from detectors.verdict import CLEAR, Finding, Severity, Subject, Verdict, firing


@dataclass(frozen=True, slots=True, kw_only=True)
class StruckNodeConfig:
    window_seconds: float = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class StruckNode:
    config: StruckNodeConfig

    def check(self, frame: Frame) -> Verdict:
        job, began = frame.scheduler, _began_at(frame)
        if job is None or job.state != "running" or began is None:
            return CLEAR  # nobody has chosen nodes anew
        nodes = {node.name for node in frame.nodes}
        since = frame.now - self.config.window_seconds
        last: dict[str, Strike] = {}
        for strike in frame.strikes:
            if strike.counted and strike.node in nodes and since <= strike.at < began:
                last[strike.node] = strike
        return firing(_finding(frame, strike) for strike in last.values())


def _began_at(frame: Frame) -> float | None:
    """When the scheduler placed it, or what is known of that."""
    job = frame.scheduler
    return job.started_at if job is not None and job.started_at is not None else frame.attempt.started_at


def _finding(frame: Frame, strike: Strike) -> Finding:
    node = strike.node
    gpu = f" gpu {strike.gpu_index}" if strike.gpu_index is not None else ""
    return Finding(
        signature="struck_node",
        family="repeated_ecc",
        subject=Subject(run=frame.run, node=node),
        severity=Severity.WARNING,
        precision=-1,  # a second strike says it more sharply
        summary=(
            f"Attempt {frame.attempt.number} is placed on {node}, which was struck "
            f"{duration(frame.now - strike.at)} ago ({strike.kind}{gpu}): to leave it out, --exclude={node}"
        ),
        evidence={
            "node": node,
            "attempt": frame.attempt.number,
            "job_id": frame.scheduler.job_id if frame.scheduler is not None else None,
            "strike_kind": strike.kind,
            "strike_at": strike.at,
            "strike_detail": strike.detail[:200],
            "gpu_uuid": strike.gpu_uuid,
            "slurm_exclude": f"--exclude={node}",
        },
        hint=f"It may do it again. Before much work is lost: requeue without it, with --exclude={node}.",
        since_at=_began_at(frame),
    )


PLUGIN = Plugin("struck_node", StruckNodeConfig, StruckNode, family="repeated_ecc")
