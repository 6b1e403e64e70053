"""The run ended before its target, and nothing runs or waits to go on with it."""

from __future__ import annotations

from dataclasses import dataclass

from detectors._ending import Ending, ending_of
from detectors._shape import shape_of
from detectors._stall import cost, duration
from detectors.frame import Frame, Scheduler
from detectors.registry import Plugin
from detectors.verdict import CLEAR, Finding, Severity, Subject, Unknown, Verdict, firing

HINT = "Submit it again from the last save, without a node that the crash names (runwatch suspects --slurm)."
HOW = {
    "cancelled": "was cancelled",
    "time_limit": "reached its time limit",
    "preempted": "was preempted",
    "requeued": "was given back to the queue",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRestartedConfig:
    """`wait_seconds` without a process, a new line or a job that waits."""

    wait_seconds: float = 900.0


@dataclass(frozen=True, slots=True)
class NotRestarted:
    config: NotRestartedConfig

    def check(self, frame: Frame) -> Verdict:
        attempt, progress, job = frame.attempt, frame.progress, frame.scheduler
        if attempt.started_at is None:
            return Unknown("no launch of this run has been seen yet")
        if attempt.end_marker_at is not None and not attempt.ended_early:
            return CLEAR
        if job is not None and job.state == "none":
            job = None  # it knows no job of this run: the rule may not fit
        if job is not None and job.state == "unknown":
            return Unknown("the scheduler does not answer: something may wait")
        if job is not None and (job.state == "running" or job.successor_waits or _will_start(job)):
            return CLEAR
        if job is not None and job.state == "completed" and not attempt.ended_early:
            return CLEAR
        shape = shape_of(frame, 2.5 * frame.interval_seconds)
        left = job is not None and job.has_left
        if shape.held and not left:
            return CLEAR
        ending = ending_of(frame)
        ended = bool(attempt.stopped or attempt.ended_early) or left
        if ending is None and not ended:
            return CLEAR
        if not shape.held_known and job is None and not ended:
            return Unknown("whether processes still run is not known")
        last = max(filter(None, (progress.last_line_at, progress.last_progress_at, attempt.started_at)))
        if ending is not None:
            last = max(last, ending.since_at)
        if frame.now - last <= self.config.wait_seconds:
            return CLEAR
        return firing([self._finding(frame, job, ending, last, shape.gpus)])

    def _finding(self, frame: Frame, job: Scheduler | None, ending: Ending | None, last: float, gpus: int) -> Finding:
        attempt, progress = frame.attempt, frame.progress
        crashed = ending is not None and not attempt.stopped and not attempt.ended_early
        how = HOW.get(attempt.stopped or "", "ended before its target" if attempt.ended_early else "died")
        step = "before its first step" if progress.last_step is None else f"at step {progress.last_step}"
        if progress.last_step is not None and progress.total_steps is not None:
            step += f" of {progress.total_steps}"
        sure = _surely(job, asked=frame.scheduler is not None)
        seconds = frame.now - last
        evidence = {
            "attempt": attempt.number,
            "stopped": attempt.stopped,
            "job_id": job.job_id if job is not None else None,
            "job_state": job.state if job is not None else None,
            "job_held": (job.reason or "held") if job is not None and job.held else None,
            "last_step": progress.last_step,
            "total_steps": progress.total_steps,
            "last_line_at": progress.last_line_at,
            "idle_seconds": round(seconds, 1),
            **cost(frame, seconds, gpus),
        }
        return Finding(
            signature="not_restarted",
            subject=Subject(run=frame.run),
            severity=Severity.CRITICAL,
            summary=f"The run {how} {step} and nothing has run for {duration(seconds)}: {sure}",
            evidence={key: value for key, value in evidence.items() if value is not None},
            hint=HINT,
            since_at=last,
            explained_by=(f"{frame.run}/crash",) if crashed else (),
        )


def _will_start(job: Scheduler) -> bool:
    return job.state == "pending" and not job.held


def _surely(job: Scheduler | None, *, asked: bool) -> str:
    """How it is known that nothing goes on."""
    if job is None:
        told = "the scheduler lists no job of it" if asked else "no scheduler is asked"
        return f"no process and no line since; {told}"
    if job.held:
        return f"what waits is held ({job.reason[:120] or 'by a person'}) and will not start by itself"
    return "nothing waits"


PLUGIN = Plugin("not_restarted", NotRestartedConfig, NotRestarted)
