"""The run should be there by now, and neither its log nor its processes are."""

from __future__ import annotations

from dataclasses import dataclass

from detectors._shape import held_share
from detectors._stall import duration
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.verdict import CLEAR, Finding, Severity, Subject, Unknown, Verdict, firing

HINT = "Is the job there (squeue, kubectl get pods)? Does the path of the log in the config match what it writes?"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStartedConfig:
    """`grace_seconds` after the moment from the config, or after the scheduler let the job run."""

    grace_seconds: float = 900.0


@dataclass(frozen=True, slots=True)
class NotStarted:
    config: NotStartedConfig

    def check(self, frame: Frame) -> Verdict:
        if frame.attempt.started_at is not None:
            return CLEAR
        expected = _expected_at(frame)
        if expected is None:
            return Unknown("nothing says when this run should start")
        seconds = frame.now - expected
        if seconds <= self.config.grace_seconds:
            return CLEAR
        held = held_share(frame.history) if len(frame.history) else None
        if held:
            return CLEAR  # processes are there; what they do is for others to judge
        seen = "no GPU of it is held" if held is not None else "its GPUs cannot be seen"
        return firing(
            [
                Finding(
                    signature="not_started",
                    subject=Subject(run=frame.run),
                    severity=Severity.WARNING,
                    summary=f"Expected {duration(seconds)} ago and not there: no line of a log, and {seen}",
                    evidence={
                        "expected_at": expected,
                        "late_seconds": round(seconds, 1),
                        "scheduler_state": frame.scheduler.state if frame.scheduler is not None else "not asked",
                        "logs": [f"{log.path}: {log.error or 'no line yet'}" for log in frame.log_sources[:8]],
                    },
                    hint=HINT,
                    since_at=expected,
                )
            ]
        )


def _expected_at(frame: Frame) -> float | None:
    job = frame.scheduler
    if job is not None and job.state == "running" and job.started_at is not None:
        return job.started_at
    return frame.expected_start_at


PLUGIN = Plugin("not_started", NotStartedConfig, NotStarted)
