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
    """Against the median interval between completed saves of this run, once `learnt_count` were seen. A save that
    began while training goes on is never completed after `unfinished_seconds`, `length_times` its longest length and
    its longest interval. Where the log tells starts alone, the longest interval counts, and `implied_least_seconds`:
    programs that print no end often save only when the loss is better."""

    interval_times: float = 3.0
    learnt_count: int = 2
    least_seconds: float = 300.0
    implied_least_seconds: float = 1800.0
    length_times: float = 3.0
    unfinished_seconds: float = 1800.0


@dataclass(frozen=True, slots=True)
class CheckpointOverdue:
    config: CheckpointOverdueConfig

    def check(self, frame: Frame) -> Verdict:
        attempt, learnt, last = frame.attempt, frame.learnt.save_interval, frame.last_checkpoint_at
        if attempt.stopped or attempt.end_marker_at is not None or attempt.started_at is None:
            return CLEAR
        if frame.progress.hidden is not None:
            return Unknown(frame.progress.hidden)
        if (unfinished := self._unfinished(frame)) is not None:
            return firing([unfinished])
        if learnt is None or last is None or learnt.count < self.config.learnt_count:
            return Unknown("how often this run saves is not known yet")
        first_step = frame.progress.first_step_at
        if first_step is None:
            return Unknown("the attempt has not made a step yet")
        least, usual = self.config.least_seconds, learnt.median_seconds
        if frame.learnt.saves_implied:
            least, usual = self.config.implied_least_seconds, learnt.longest_seconds
        limit = max(least, self.config.interval_times * usual)
        seconds = frame.now - max(last, first_step)
        if seconds <= limit:
            return CLEAR
        text = f"No save for {duration(seconds)}, usual: {duration(learnt.median_seconds)}"
        return firing([_finding(frame, text, limit, last)])

    def _unfinished(self, frame: Frame) -> Finding | None:
        """Steps went on after its start, so it runs beside them; a save that all wait for is the stall's matter."""
        started, length = frame.save_started_at, frame.learnt.save_length
        moved = frame.progress.last_step_at
        if started is None or length is None or moved is None or moved <= started:
            return None
        interval = frame.learnt.save_interval
        limit = max(
            self.config.unfinished_seconds,
            self.config.length_times * length.longest_seconds,
            interval.longest_seconds if interval is not None else 0.0,
        )
        seconds = frame.now - started
        if seconds <= limit:
            return None
        text = f"A save began {duration(seconds)} ago and was never completed, usual: {duration(length.median_seconds)}"
        return _finding(frame, text, limit, started)


def _finding(frame: Frame, text: str, limit: float, since_at: float) -> Finding:
    """`text`: what is late; what a crash would cost now is added."""
    last, step, learnt = frame.last_checkpoint_at, frame.last_checkpoint_step, frame.learnt.save_interval
    lost = ""
    if last is not None and step is not None and frame.progress.last_step is not None:
        lost = f"; {frame.progress.last_step - step} steps, {duration(frame.now - last)}, would be lost now"
    return Finding(
        signature="checkpoint_overdue",
        subject=Subject(run=frame.run),
        severity=Severity.WARNING,
        summary=f"{text}{lost}",
        evidence={
            "last_checkpoint_at": last,
            "last_checkpoint_step": step,
            "save_started_at": frame.save_started_at,
            "usual_interval_seconds": learnt.median_seconds if learnt is not None else None,
            "limit_seconds": limit,
            "last_step": frame.progress.last_step,
        },
        hint=HINT,
        since_at=since_at,
    )


PLUGIN = Plugin("checkpoint_overdue", CheckpointOverdueConfig, CheckpointOverdue)
