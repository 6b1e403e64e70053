"""No save has been completed for three times as long as usual: a crash now would lose all of that."""

from __future__ import annotations

from dataclasses import dataclass

from detectors._stall import duration
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.verdict import CLEAR, Finding, Severity, Subject, Unknown, Verdict, firing

HINT = "Look at free space and quota of the checkpoint directory, and at the last lines about saving in the log."


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOverdueConfig:
    """Against the median interval between completed saves of this run, once `learnt_count` were seen."""

    interval_times: float = 3.0
    learnt_count: int = 2
    least_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class CheckpointOverdue:
    config: CheckpointOverdueConfig

    def check(self, frame: Frame) -> Verdict:
        attempt, learnt, last = frame.attempt, frame.learnt.save_interval, frame.last_checkpoint_at
        if attempt.stopped or attempt.end_marker_at is not None or attempt.started_at is None:
            return CLEAR
        if learnt is None or last is None or learnt.count < self.config.learnt_count:
            return Unknown("how often this run saves is not known yet")
        first_step = frame.progress.first_step_at
        if first_step is None:
            return Unknown("the attempt has not made a step yet")
        limit = max(self.config.least_seconds, self.config.interval_times * learnt.median_seconds)
        seconds = frame.now - max(last, first_step)
        if seconds <= limit:
            return CLEAR
        lost = ""
        if frame.last_checkpoint_step is not None and frame.progress.last_step is not None:
            lost = f"; {frame.progress.last_step - frame.last_checkpoint_step} steps would be lost now"
        return firing(
            [
                Finding(
                    signature="checkpoint_overdue",
                    subject=Subject(run=frame.run),
                    severity=Severity.WARNING,
                    summary=f"No save for {duration(seconds)}, usual: {duration(learnt.median_seconds)}{lost}",
                    evidence={
                        "last_checkpoint_at": last,
                        "last_checkpoint_step": frame.last_checkpoint_step,
                        "usual_interval_seconds": learnt.median_seconds,
                        "limit_seconds": limit,
                        "last_step": frame.progress.last_step,
                    },
                    hint=HINT,
                    since_at=last,
                )
            ]
        )


PLUGIN = Plugin("checkpoint_overdue", CheckpointOverdueConfig, CheckpointOverdue)
