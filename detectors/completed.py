"""The final step is reached or an end marker is read, and the processes are gone: a notice, nobody is woken."""

from __future__ import annotations

from dataclasses import dataclass

from detectors._shape import shape_of
from detectors._stall import duration
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.verdict import CLEAR, Finding, Severity, Subject, Unknown, Verdict, firing


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedConfig:
    """`quiet_seconds`: without GPU readings, this long after the end marker it counts as gone."""

    quiet_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Completed:
    config: CompletedConfig

    def check(self, frame: Frame) -> Verdict:
        attempt, progress = frame.attempt, frame.progress
        if attempt.end_marker_at is None or attempt.ended_early or attempt.stopped:
            return CLEAR
        shape = shape_of(frame, 2.5 * frame.interval_seconds)
        if shape.held_known and not shape.memory_free:
            return CLEAR
        if not shape.held_known and frame.now - attempt.end_marker_at < self.config.quiet_seconds:
            return Unknown("no GPU readings: waiting for silence after the end marker")
        begun = min([a.started_at for a in frame.past_attempts] + [attempt.started_at or attempt.end_marker_at])
        took = attempt.end_marker_at - begun
        steps = "" if progress.last_step is None else f" at step {progress.last_step}"
        tries = attempt.number
        finding = Finding(
            signature="completed",
            subject=Subject(run=frame.run),
            severity=Severity.INFO,
            summary=f"Completed{steps} after {duration(took)}, {tries} attempt{'s' if tries > 1 else ''}",
            evidence={
                "last_step": progress.last_step,
                "total_steps": progress.total_steps,
                "run_seconds": round(took, 1),
                "attempts_count": tries,
                "gpus_total": shape.gpus,
            },
            since_at=attempt.end_marker_at,
            notice=True,
        )
        return firing([finding])


PLUGIN = Plugin("completed", CompletedConfig, Completed)
