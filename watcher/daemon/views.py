"""Frames and incidents as plain values for the API, `status` and the page. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from alerts.incidents import Incident
from detectors.frame import Frame, Scheduler

SHOWN_NODES = 200
STATES = (
    "not started", "startup", "training", "evaluation", "checkpoint", "finished", "stopped", "notice", "warning",
    "critical",
)  # fmt: skip


def run_view(frame: Frame, incidents: Iterable[Incident]) -> dict[str, Any]:
    """One run: where it stands, what is watched, what was learnt and where from, what is open."""
    progress, learnt = frame.progress, frame.learnt
    power = frame.history.power_watts[-3:]
    known = int((~np.isnan(power).all(axis=0)).sum()) if len(power) else 0
    rates = progress.records[-1].rates if progress.records else {}
    own = [i for i in incidents if i.run == frame.run and i.state != "resolved"]
    return {
        "run": frame.run,
        "state": state_of(frame, own),
        "attempt": frame.attempt.number,
        "attempt_started_at": frame.attempt.started_at,
        "phase": frame.phase.name,
        "phase_since_at": frame.phase.since_at if frame.attempt.started_at is not None else None,
        "step": progress.last_step,
        "total_steps": progress.total_steps,
        "last_progress_at": progress.last_progress_at,
        "last_line_at": progress.last_line_at,
        "no_progress_seconds": None if progress.last_progress_at is None else frame.now - progress.last_progress_at,
        "loss": progress.records[-1].loss if progress.records else None,
        "job": _job(frame.scheduler),
        "throughput": next(iter(rates.values()), None),
        "throughput_unit": next(iter(rates), None),
        "last_checkpoint_step": frame.last_checkpoint_step,
        "last_checkpoint_at": frame.last_checkpoint_at,
        "watched": {
            "nodes": len(frame.nodes),
            "nodes_answering": sum(node.reachable is True for node in frame.nodes),
            "gpus": len(frame.gpus),
            "gpus_power_known": known,
            "progress_source": progress.source,
            "logs": [
                {"path": s.path, "node": s.node, "format": s.format, "steps": s.steps, "error": s.error}
                for s in frame.log_sources[:SHOWN_NODES]
            ],
        },
        "nodes": [
            {"node": node.name, "reachable": node.reachable, "error": node.error, "gpus": len(node.gpus)}
            for node in sorted(frame.nodes, key=lambda n: (n.reachable is True, n.name))[:SHOWN_NODES]
        ],
        "learnt": {
            "origin": learnt.origin,
            "power_watts": learnt.power.run_median_watts if learnt.power is not None else None,
            "power_spread_watts": learnt.power.run_spread_watts if learnt.power is not None else None,
            "gaps_seconds": {name: _gap(stats) for name, stats in learnt.gaps.items()},
            "phase_seconds": {name: _gap(stats) for name, stats in learnt.durations.items()},
            "burst_seconds": progress.burst_seconds or None,
        },
        "incidents": [incident.key for incident in own],
    }


def _job(job: Scheduler | None) -> dict[str, Any] | None:
    """What the scheduler says of the run; None where none is asked."""
    if job is None:
        return None
    return {
        "state": job.state,
        "id": job.job_id,
        "restarts": job.restarts,
        "ends_by_at": job.ends_by_at,
        "successor_waits": job.successor_waits,
        "held": job.held,
        "reason": job.reason,
        "note": job.note,
    }


def _gap(stats: Any) -> dict[str, float]:
    return {"longest": stats.longest_seconds, "median": stats.median_seconds, "count": stats.count}


def state_of(frame: Frame, incidents: Iterable[Incident]) -> str:
    """One word for people, of STATES."""
    worst = max((i.severity for i in incidents if i.state == "open" and not i.shadow), default=None)
    if worst is not None:
        return "critical" if worst.label == "critical" else "warning" if worst.label == "warning" else "notice"
    if frame.attempt.started_at is None:
        return "not started"
    if frame.attempt.stopped or frame.attempt.ended_early:
        return "stopped"
    if frame.attempt.end_marker_at is not None:
        return "finished"
    return frame.phase.name


def incident_view(incident: Incident) -> dict[str, Any]:
    """What `incidents show` prints; evidence is bounded where it is made."""
    subject = incident.subject
    return {
        "key": incident.key,
        "state": incident.state,
        "signature": incident.signature,
        "severity": incident.severity.label,
        "shadow": incident.shadow,
        "run": incident.run,
        "subject": {"node": subject.node, "gpu": subject.gpu, "gpu_index": subject.gpu_index},
        "summary": incident.summary,
        "evidence": dict(incident.evidence),
        "hint": incident.hint,
        "suspect_since_at": incident.suspect_since_at,
        "opened_at": incident.opened_at,
        "resolved_at": incident.resolved_at,
        "resolve_reason": incident.resolve_reason,
        "opens": incident.opens,
        "acknowledged_by": incident.acknowledged_by,
        "snoozed_until_at": incident.snoozed_until_at,
    }


def jsonable(value: Any) -> Any:
    """NaN and infinities become null: JSON has no other word for them."""
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    return value
