"""The loss is NaN or infinite in several logged records running, or every step is skipped. One overflow is normal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from detectors.frame import Frame, StepRecord
from detectors.registry import Plugin
from detectors.verdict import CLEAR, Finding, Severity, Subject, Unknown, Verdict, firing

HINT = "Every step from here on is lost. Stop, go back to the save before it, skip that data or lower the rate."


@dataclass(frozen=True, slots=True, kw_only=True)
class LossNanConfig:
    """`records` logged losses running; `skipping_records` records in which every step was skipped."""

    records: int = 3
    skipping_records: int = 10


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
        if not with_loss:
            return Unknown("the log prints no loss")
        return CLEAR

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


def _running(records: Sequence[StepRecord], wanted: Callable[[StepRecord], bool]) -> tuple[StepRecord, ...]:
    """The longest tail of records in which `wanted` holds."""
    tail: list[StepRecord] = []
    for record in reversed(records):
        if not wanted(record):
            break
        tail.append(record)
    return tuple(reversed(tail))


PLUGIN = Plugin("loss_nan", LossNanConfig, LossNan)
