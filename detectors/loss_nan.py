"""The loss is NaN or infinite in several logged records running, or every step is skipped. One overflow is normal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from detectors.frame import Frame, StepRecord
from detectors.registry import Plugin
from detectors.verdict import CLEAR, Finding, Severity, Subject, Unknown, Verdict, firing

FALLEN_FROM = 64.0  # times the floor: a scale that has stood here and lies on the floor has fallen; bf16 is at 1 always
HINT = "Every step from here on is lost. Stop, go back to the save before it, skip that data or lower the rate."


@dataclass(frozen=True, slots=True, kw_only=True)
class LossNanConfig:
    """`records` logged losses running; `skipping_records` records running that count NaN steps. `skipped_steps`
    running: a scaler that starts at 2^32 is at 1 after 32 to 34 of them, and has nothing left to lower after that.
    `scale_floor`: a loss scale that fell there and stays for `records`."""

    records: int = 3
    skipping_records: int = 10
    skipped_steps: int = 50
    scale_floor: float = 1.0


@dataclass(frozen=True, slots=True)
class LossNan:
    config: LossNanConfig

    def check(self, frame: Frame) -> Verdict:
        records = frame.progress.records
        if frame.attempt.end_marker_at is not None or frame.attempt.stopped:
            return CLEAR
        with_loss = [r for r in records if r.loss is not None]
        bad = _running(with_loss, lambda r: r.loss is not None and not math.isfinite(r.loss))
        skipping = _running(records, lambda r: bool(r.nan_steps))
        if len(bad) >= self.config.records:
            return firing([self._finding(frame, bad, f"Loss is {bad[-1].loss} in {len(bad)} records running")])
        if len(skipping) >= self.config.skipping_records:
            title = f"Every record counts NaN steps, {len(skipping)} running"
            return firing([self._finding(frame, skipping, title)])
        skipped = _all_skipped(records)
        steps = sum(record.skipped_steps or 0 for record in skipped)
        if len(skipped) >= self.config.records and steps >= self.config.skipped_steps:
            return firing([self._finding(frame, skipped, f"Every step is skipped, {steps} running")])
        floored = self._on_the_floor(records)
        if len(floored) >= self.config.records:
            title = f"The loss scale has fallen to its floor ({floored[-1].loss_scale:g})"
            return firing([self._finding(frame, floored, title)])
        if not with_loss:
            return Unknown("the log prints no loss")
        return CLEAR

    def _on_the_floor(self, records: Sequence[StepRecord]) -> tuple[StepRecord, ...]:
        floor = self.config.scale_floor
        if all(r.loss_scale is None or r.loss_scale < FALLEN_FROM * floor for r in records):
            return ()
        return _running(records, lambda r: r.loss_scale is not None and r.loss_scale <= floor)

    def _finding(self, frame: Frame, bad: tuple[StepRecord, ...], title: str) -> Finding:
        first = bad[0]
        return Finding(
            signature="loss_nan",
            subject=Subject(run=frame.run),
            severity=Severity.CRITICAL,
            summary=f"{title}, since step {first.step}",
            evidence={
                "first_bad_step": first.step,
                "last_step": bad[-1].step,
                "bad_records_count": len(bad),
                "last_checkpoint_step": frame.last_checkpoint_step,
                "grad_norm": bad[-1].grad_norm,
                "loss_scale": bad[-1].loss_scale,
            },
            hint=HINT,
            since_at=first.at,
        )


def _all_skipped(records: Sequence[StepRecord]) -> tuple[StepRecord, ...]:
    """The tail of records in which no step since the record before counted."""
    tail: list[StepRecord] = []
    for newer, older in pairwise(reversed(records)):
        if newer.skipped_steps is None or newer.skipped_steps < newer.step - older.step:
            break
        tail.append(newer)
    return tuple(reversed(tail))


def _running(records: Sequence[StepRecord], wanted: Callable[[StepRecord], bool]) -> tuple[StepRecord, ...]:
    """The longest tail of records in which `wanted` holds."""
    tail: list[StepRecord] = []
    for record in reversed(records):
        if not wanted(record):
            break
        tail.append(record)
    return tuple(reversed(tail))


PLUGIN = Plugin("loss_nan", LossNanConfig, LossNan)
