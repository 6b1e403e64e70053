"""Steps became slower all at once and stay so, in one attempt, world and batch size alike; not by waves or jitter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from detectors._changed_gpu import changed_gpus
from detectors._links import troubled_links
from detectors._odd_gpu import slow_gpus
from detectors.frame import Frame, GpuRef, Pace
from detectors.registry import Plugin
from detectors.verdict import CLEAR, Finding, Severity, Subject, Unknown, Verdict, firing

HINT = "If a GPU is named, look at its clock and heat. Else: what changed then? Network, file system, another job."

LEAST_BEFORE = 5  # points; fewer do not show how much the pace jitters


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputDropConfig:
    """`records` logged steps and `seconds` at the new pace, against the `before_points` minutes before the change.
    The step has to be `sigmas` times the run's own jitter."""

    ratio: float = 0.03
    critical_ratio: float = 0.30
    records: int = 10
    seconds: float = 600.0
    before_points: int = 20
    sigmas: float = 3.0


@dataclass(frozen=True, slots=True)
class Change:
    at: float
    before_seconds: float
    after_seconds: float

    @property
    def slower_ratio(self) -> float:
        return self.after_seconds / self.before_seconds - 1


@dataclass(frozen=True, slots=True)
class ThroughputDrop:
    config: ThroughputDropConfig

    def check(self, frame: Frame) -> Verdict:
        if frame.attempt.stopped or frame.attempt.end_marker_at is not None:
            return CLEAR
        change = self._change(frame.progress.pace)
        if isinstance(change, Unknown):
            return change
        if change is None:
            return CLEAR
        named, links = _who(frame, change), troubled_links(frame)
        told = [*(f"{ref} ({text})" for ref, text in named), *links]
        who = f"stands out: {', '.join(told[:3])}" if told else "no GPU or link stands out"
        alone = named[0][0] if len(named) == 1 else None
        ratio = change.slower_ratio
        return firing(
            [
                Finding(
                    signature="throughput_drop",
                    subject=Subject(run=frame.run),
                    severity=Severity.CRITICAL if ratio >= self.config.critical_ratio else Severity.WARNING,
                    summary=(
                        f"Steps take {change.after_seconds:.4g} s, {ratio:.1%} more than the "
                        f"{change.before_seconds:.4g} s before; {who}"
                    ),
                    evidence={
                        "changed_at": change.at,
                        "step_seconds_before": change.before_seconds,
                        "step_seconds_now": change.after_seconds,
                        "slower_ratio": round(ratio, 4),
                        "who_differs": told[:3] or "no one differs",
                        "node": alone.node if alone is not None else None,
                        "gpu_index": alone.index if alone is not None else None,
                        "gpu_uuids": [ref.uuid for ref, _ in named][:3],
                    },
                    hint=HINT,
                    since_at=change.at,
                )
            ]
        )

    def _change(self, pace: Pace) -> Change | Unknown | None:
        """The sharpest step upwards in the newest stretch of equal world and batch size, if the pace stays there."""
        config = self.config
        count = len(pace.at)
        first = next((i + 1 for i in range(count - 2, -1, -1) if pace.world[i] != pace.world[-1]), 0)
        seconds, at = np.asarray(pace.step_seconds[first:]), np.asarray(pace.at[first:])
        records = np.asarray(pace.records[first:])
        if records.sum() < 2 * config.records or len(seconds) < 4:
            return Unknown("too few steps of this world and batch size yet")
        after_records = records[::-1].cumsum()[::-1]
        long_enough = (after_records >= config.records) & (at[-1] - at >= config.seconds)
        best: tuple[float, int] | None = None
        for k in np.flatnonzero(long_enough):
            before = seconds[max(0, k - config.before_points) : k]
            if len(before) < LEAST_BEFORE or records[max(0, k - config.before_points) : k].sum() < config.records:
                continue
            near = seconds[k : k + config.before_points]
            step = float(np.median(near) / np.median(before)) - 1
            if best is None or step > best[0]:
                best = (step, int(k))
        if best is None or best[0] < config.ratio:
            return None
        split = _exact(seconds, best[1], config.before_points)
        if not long_enough[split - 1]:  # it began somewhere within the point before
            return None
        before, after = seconds[max(0, split - config.before_points) : split], seconds[split:]
        middle = float(np.median(before))
        jitter = 1.4826 * float(np.median(np.abs(before - middle)))
        floor = max(config.ratio * middle, config.sigmas * jitter)
        recent = after[-min(len(after), config.before_points) :]
        stays = float(np.median(recent)) - middle >= floor and float((recent > middle + floor / 2).mean()) >= 0.8
        return Change(float(at[split]), middle, float(np.median(recent))) if stays else None


def _exact(seconds: npt.NDArray[np.float64], near: int, points: int) -> int:
    """Medians step as soon as most of a window is new; this is where the new pace began, by cumulative sums."""
    first = max(0, near - points)
    before, after = np.median(seconds[first:near]), np.median(seconds[near : near + points])
    step = after - before
    around = np.clip(seconds[first : near + points], before - step, after + step)
    return first + int(np.argmin(np.cumsum(around - (before + after) / 2))) + 1


def _who(frame: Frame, change: Change) -> list[tuple[GpuRef, str]]:
    """GPUs that changed with the pace, else those that are slower than their peers."""
    changed = changed_gpus(frame, change.at)
    if changed:
        return [(one.ref, one.text) for one in changed]
    slow = slow_gpus(frame, 600.0, 0.05, 6.0) or ()
    return [(one.ref, f"{one.clock_mhz:.0f} of {one.peers_mhz:.0f} MHz") for one in slow]


PLUGIN = Plugin("throughput_drop", ThroughputDropConfig, ThroughputDrop)
