"""The loss jumps far out of its own noise; critical when it does not come back."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from detectors.frame import Frame, StepRecord
from detectors.registry import Plugin
from detectors.verdict import CLEAR, Finding, Severity, Subject, Unknown, Verdict, firing

HINT = (
    "Spikes of a few steps recover by themselves; slow ones do not. Compare with the gradient norm; keep the last save."
)
ENOUGH = 16  # records of normal loss before one can be called a spike
LOOKED_AT = 512  # records, the newest
IQR_TO_SIGMA = 1 / 1.349


@dataclass(frozen=True, slots=True, kw_only=True)
class LossSpikeConfig:
    """A record is part of a spike when it lies `sigmas` robust deviations and `jump_ratio` above the median of the
    last `baseline_records` normal ones. Not judged in the first `quiet_steps` of an attempt."""

    sigmas: float = 6.0
    jump_ratio: float = 0.10
    baseline_records: int = 128
    quiet_steps: int = 50
    recover_steps: int = 50


@dataclass(frozen=True, slots=True)
class Spike:
    first: StepRecord
    peak: StepRecord
    median: float


@dataclass(frozen=True, slots=True)
class LossSpike:
    config: LossSpikeConfig

    def check(self, frame: Frame) -> Verdict:
        records = [r for r in frame.progress.records if r.loss is not None]
        if not records:
            return Unknown("the log prints no loss")
        if frame.attempt.stopped or frame.attempt.end_marker_at is not None:
            return CLEAR
        spike = self._spike(records[-LOOKED_AT:], frame.progress.records[0].step)
        if spike is None:
            return CLEAR
        last = records[-1]
        steps = last.step - spike.first.step
        lasting = steps >= self.config.recover_steps
        how = f"and has not come back in {steps} steps" if lasting else f"{steps} steps ago"
        return firing(
            [
                Finding(
                    signature="loss_spike",
                    subject=Subject(run=frame.run),
                    severity=Severity.CRITICAL if lasting else Severity.WARNING,
                    summary=f"Loss up from {spike.median:.4g} to {spike.peak.loss:.4g}, step {spike.first.step} {how}",
                    evidence={
                        "first_step": spike.first.step,
                        "last_step": last.step,
                        "loss_before": spike.median,
                        "loss_peak": spike.peak.loss,
                        "loss_now": last.loss,
                        "grad_norm_now": last.grad_norm,
                        "last_checkpoint_step": frame.last_checkpoint_step,
                    },
                    hint=HINT,
                    since_at=spike.first.at,
                )
            ]
        )

    def _spike(self, records: Sequence[StepRecord], first_step: int) -> Spike | None:
        """The spike that the newest record is part of. Records of a spike never become the norm."""
        order: deque[float] = deque()
        ranked: list[float] = []
        spike: Spike | None = None
        for record in records:
            loss = record.loss
            if loss is None or not math.isfinite(loss):
                continue
            judged = len(order) >= ENOUGH and record.step - first_step >= self.config.quiet_steps
            if judged and loss > self._ceiling(ranked):
                median = ranked[len(ranked) // 2]
                begun = spike or Spike(record, record, median)
                higher = begun.peak.loss is None or loss > begun.peak.loss
                spike = Spike(begun.first, record if higher else begun.peak, median)
                continue
            spike = None
            order.append(loss)
            insort(ranked, loss)
            if len(order) > self.config.baseline_records:
                del ranked[bisect_left(ranked, order.popleft())]
        return spike

    def _ceiling(self, ranked: Sequence[float]) -> float:
        count = len(ranked)
        median = ranked[count // 2]
        sigma = (ranked[(3 * count) // 4] - ranked[count // 4]) * IQR_TO_SIGMA
        return median + max(self.config.sigmas * sigma, self.config.jump_ratio * abs(median))


PLUGIN = Plugin("loss_spike", LossSpikeConfig, LossSpike)
