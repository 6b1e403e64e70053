"""The job's time limit comes near, nothing waits to go on after it, and the run is not about to be done."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from detectors._stall import duration
from detectors.frame import Frame, Scheduler
from detectors.registry import Plugin
from detectors.verdict import CLEAR, Finding, Severity, Subject, Unknown, Verdict, firing

STEPS = 64  # the last ones, for how long the rest will take


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimitConfig:
    """`warn_seconds` before the limit, at most `warn_ratio` of it: an hour's job does not warn from its start."""

    warn_seconds: float = 7200.0
    warn_ratio: float = 0.1


@dataclass(frozen=True, slots=True)
class TimeLimit:
    config: TimeLimitConfig

    def check(self, frame: Frame) -> Verdict:
        job = frame.scheduler
        if job is None or job.state == "unknown":
            return Unknown("no scheduler tells when the job must end")
        if job.state != "running" or job.ends_by_at is None or job.successor_waits:
            return CLEAR
        left = job.ends_by_at - frame.now
        whole = job.ends_by_at - (job.started_at if job.started_at is not None else frame.now)
        if left > min(self.config.warn_seconds, max(self.config.warn_ratio * whole, 60.0)):
            return CLEAR
        needed = _seconds_to_target(frame)
        if frame.attempt.end_marker_at is not None or (needed is not None and needed < left):
            return CLEAR
        return firing([_finding(frame, job, job.ends_by_at, left, needed)])


def _seconds_to_target(frame: Frame) -> float | None:
    progress = frame.progress
    seconds = [r.step_seconds for r in progress.records[-STEPS:] if r.step_seconds is not None]
    if progress.total_steps is None or progress.last_step is None or not seconds:
        return None
    return (progress.total_steps - progress.last_step) * statistics.median(seconds)


def _finding(frame: Frame, job: Scheduler, ends_by_at: float, left: float, needed: float | None) -> Finding:
    progress = frame.progress
    step = "" if progress.last_step is None else f" at step {progress.last_step}"
    if step and progress.total_steps is not None:
        step += f" of {progress.total_steps}"
    held = " (what waits is held)" if job.held else ""
    evidence = {
        "job_id": job.job_id,
        "ends_by_at": ends_by_at,
        "left_seconds": round(left, 1),
        "needed_seconds": None if needed is None else round(needed, 1),
        "last_step": progress.last_step,
        "total_steps": progress.total_steps,
        "last_checkpoint_at": frame.last_checkpoint_at,
        "last_checkpoint_step": frame.last_checkpoint_step,
    }
    when = f"ends in {duration(left)} by its time limit" if left > 0 else "is past its time limit"
    return Finding(
        signature="time_limit",
        subject=Subject(run=frame.run),
        severity=Severity.WARNING,
        summary=f"Job {job.job_id} {when}{step}, and nothing waits to go on{held}",
        evidence={key: value for key, value in evidence.items() if value is not None},
        hint=(
            f"Submit the next one now: sbatch --dependency=afterany:{job.job_id} ... ; "
            f"or ask for a longer limit: scontrol update jobid={job.job_id} timelimit=..."
        ),
        since_at=frame.now,
    )


PLUGIN = Plugin("time_limit", TimeLimitConfig, TimeLimit)
