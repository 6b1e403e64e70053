"""How long a phase may stand still: short where power agrees, long on the step counter alone, learnt where shown."""

from __future__ import annotations

from dataclasses import dataclass, replace

from detectors._hosts import hosts_quiet
from detectors.frame import Frame, GapStats

LEARNT_COUNT = 3  # gaps of a phase before it counts as learnt


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleLimits:
    """Limits on one signal, seconds. Learnt: max(least, times x the longest gap of this phase), at most `most`."""

    least_seconds: float = 600.0
    gap_times: float = 5.0
    most_seconds: float = 4 * 3600.0
    training_seconds: float = 600.0
    evaluation_seconds: float = 3600.0
    evaluation_silent_seconds: float = 600.0  # where the evaluation has printed lines of its own
    checkpoint_seconds: float = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreeingLimits:
    """Limits where power, or what the hosts do, says the same, seconds."""

    least_seconds: float = 120.0
    gap_times: float = 3.0
    most_seconds: float = 2 * 3600.0
    unlearnt_seconds: float = 240.0  # training and evaluation
    checkpoint_seconds: float = 1800.0  # in a save that is not learnt, power cannot tell waiting from hanging
    bursty_seconds: float = 600.0
    quiet_seconds: float = 300.0  # the same save where the hosts do nothing either for so long


@dataclass(frozen=True, slots=True)
class Limit:
    seconds: float
    origin: str


def learnt_gap(frame: Frame) -> GapStats | None:
    """Of the present phase; a save's is its length from start to end, an evaluation's that of its own lines."""
    name, progress = frame.phase.name, frame.progress
    gaps, lengths = frame.learnt.gaps.get(name), frame.learnt.durations.get(name)
    if name == "checkpoint":
        return lengths or gaps
    if name == "evaluation" and gaps is None:
        return lengths
    if progress.bursty and gaps is not None:  # so much work came at once: so much may be on its way again
        return replace(gaps, longest_seconds=max(gaps.longest_seconds, progress.burst_seconds))
    return gaps


def single_limit(frame: Frame, limits: SingleLimits) -> Limit:
    """Of a training, evaluation or checkpoint phase."""
    if frame.phase.max_seconds is not None:
        return Limit(frame.phase.max_seconds, "your max_seconds for this phase")
    gap, name = learnt_gap(frame), frame.phase.name
    learnt = _learnt(gap, limits.least_seconds, limits.gap_times, limits.most_seconds)
    if name == "evaluation" and not frame.phase.announced:  # perhaps it is over and a step is under way
        training = _learnt(
            frame.learnt.gaps.get("training"), limits.least_seconds, limits.gap_times, limits.most_seconds
        )
        learnt = max(filter(None, (learnt, training)), key=lambda limit: limit.seconds, default=None)
    if gap is not None and gap.count >= LEARNT_COUNT and learnt is not None:
        return learnt
    prior = {
        "evaluation": limits.evaluation_silent_seconds if gap is not None else limits.evaluation_seconds,
        "checkpoint": limits.checkpoint_seconds,
    }.get(name, limits.training_seconds)
    if learnt is not None and learnt.seconds > prior:
        return learnt
    return Limit(prior, "default, nothing learnt yet")


def agreeing_limit(frame: Frame, limits: AgreeingLimits) -> Limit:
    """The same where a second signal agrees: GPUs that spin at low power, or hosts that do nothing."""
    if frame.phase.max_seconds is not None:
        return Limit(frame.phase.max_seconds, "your max_seconds for this phase")
    gap = learnt_gap(frame)
    learnt = _learnt(gap, limits.least_seconds, limits.gap_times, limits.most_seconds)
    if gap is not None and gap.count >= LEARNT_COUNT and learnt is not None:
        return learnt
    prior = limits.checkpoint_seconds if frame.phase.name == "checkpoint" else limits.unlearnt_seconds
    if hosts_quiet(frame, limits.quiet_seconds):
        prior = min(prior, limits.quiet_seconds)
    if learnt is not None and learnt.seconds > prior:
        return learnt
    return Limit(prior, "default, nothing learnt yet")


def _learnt(gap: GapStats | None, least: float, times: float, most: float) -> Limit | None:
    if gap is None:
        return None
    seconds = min(max(least, times * gap.longest_seconds), max(most, gap.longest_seconds * 1.5))
    return Limit(seconds, f"learnt: longest gap {gap.longest_seconds:.0f} s of {gap.count}")
