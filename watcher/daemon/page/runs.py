"""One run in words: what it does, since when, what is expected next, when it will be done, what it costs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from alerts.facts import RunFacts, facts_from_frame
from alerts.incidents import Incident
from detectors._limits import LEARNT_COUNT, AgreeingLimits, SingleLimits, agreeing_limit, learnt_gap, single_limit
from detectors.busy_stall import BusyStallConfig
from detectors.frame import Frame
from watcher.daemon.evaluate import Active
from watcher.daemon.views import state_of

DOING = {
    "startup": "is starting up", "training": "is training", "evaluation": "is evaluating",
    "checkpoint": "is saving a checkpoint", "finished": "is finished",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What should happen by when. `by_at` None = no one knows."""

    what: str
    by_at: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWords:
    """Instants in unix seconds; `tone` colours it: critical | warning | notice | good | quiet."""

    name: str
    tone: str
    doing: str  # goes on after the name, like "is training"
    since_at: float | None
    expected: tuple[Expected, ...]
    incidents: tuple[Incident, ...]  # open ones first, the worst first; then suspects
    facts: RunFacts
    done_at: float | None  # expected
    nodes: int
    nodes_answering: int
    gpus_known: int
    attempt: int
    attempt_started_at: float | None
    last_progress_at: float | None
    rate: float | None
    rate_unit: str
    loss: float | None
    checkpoint_step: int | None
    checkpoint_at: float | None
    steps_at_risk: int | None
    stands_since_at: float | None  # while a stall or an end is open
    gpu_hours_lost: float | None
    notes: tuple[str, ...]  # what cannot be watched


@dataclass(frozen=True, slots=True)
class Limits:
    """When a page would come, as this run's config has it."""

    agreeing: AgreeingLimits
    single: SingleLimits


DEFAULT_LIMITS = Limits(AgreeingLimits(), SingleLimits())


def limits_of(detectors: Iterable[Active]) -> Limits:
    """Those of the detectors that a run uses; defaults where one is off."""
    configs = [getattr(active.detector, "config", None) for active in detectors]
    agreeing = next((one for one in configs if isinstance(one, AgreeingLimits)), DEFAULT_LIMITS.agreeing)
    return Limits(agreeing, next((one for one in configs if isinstance(one, BusyStallConfig)), DEFAULT_LIMITS.single))


def run_words(frame: Frame, incidents: Iterable[Incident], limits: Limits = DEFAULT_LIMITS) -> RunWords:
    own = sorted(
        (one for one in incidents if one.run == frame.run and one.state != "resolved"),
        key=lambda one: (one.state != "open", one.shadow, -int(one.severity), one.suspect_since_at),
    )
    state, facts, progress = state_of(frame, own), facts_from_frame(frame), frame.progress
    stands = _stands_since(frame, own)
    record = progress.records[-1] if progress.records else None
    rates = dict(record.rates) if record is not None else {}
    unit = next(iter(rates), "")
    lost = None if stands is None else max(0.0, frame.now - stands) * facts.gpu_count / 3600
    return RunWords(
        name=frame.run,
        tone=_tone(state),
        doing=_doing(frame, state, stands),
        since_at=stands if stands is not None else _since(frame, state),
        expected=_expected(frame, facts, state, stands, limits),
        incidents=tuple(own),
        facts=facts,
        done_at=_done_at(frame, facts, stands),
        nodes=len(frame.nodes),
        nodes_answering=sum(node.reachable is True for node in frame.nodes),
        gpus_known=_power_known(frame),
        attempt=frame.attempt.number,
        attempt_started_at=frame.attempt.started_at,
        last_progress_at=progress.last_progress_at,
        rate=rates.get(unit),
        rate_unit=unit.replace("_per_second", " a second").replace("_per_gpu", " a GPU").replace("_", " "),
        loss=record.loss if record is not None else None,
        checkpoint_step=frame.last_checkpoint_step,
        checkpoint_at=frame.last_checkpoint_at,
        steps_at_risk=_at_risk(frame),
        stands_since_at=stands,
        gpu_hours_lost=lost if lost and facts.gpu_count else None,
        notes=tuple(_notes(frame)),
    )


def _tone(state: str) -> str:
    if state in ("critical", "warning", "notice"):
        return state
    return "quiet" if state in ("not started", "stopped", "finished") else "good"


def _stands_since(frame: Frame, own: Iterable[Incident]) -> float | None:
    """Since when nothing moves, where an incident says that it does not."""
    still = any(one.state == "open" and not one.shadow and one.family in ("stall", "crash") for one in own)
    return frame.progress.last_progress_at if still else None


def _doing(frame: Frame, state: str, stands: float | None) -> str:
    if state == "not started":
        return "has not started yet"
    if frame.attempt.stopped:
        return "was cancelled" if frame.attempt.stopped == "cancelled" else "was ended by its time limit"
    if frame.attempt.end_marker_at is not None:
        return "ended before its last step" if frame.attempt.ended_early else "is finished"
    if stands is not None:
        return f"stands still in {frame.phase.name}"
    return DOING[frame.phase.name]


def _since(frame: Frame, state: str) -> float | None:
    if state == "not started":
        return None
    if frame.attempt.end_marker_at is not None:
        return frame.attempt.end_marker_at
    return frame.phase.since_at if frame.attempt.started_at is not None else None


def _expected(frame: Frame, facts: RunFacts, state: str, stands: float | None, limits: Limits) -> tuple[Expected, ...]:
    if state == "not started":
        if frame.expected_start_at is not None:
            return (Expected(what="it should start", by_at=frame.expected_start_at, why="from the config"),)
        return (Expected(what="its first log line or GPU process"),)
    if stands is not None or _tone(state) == "quiet":
        return ()
    last = frame.progress.last_progress_at
    if frame.phase.name == "startup" or last is None:
        return (Expected(what="the first step of this attempt"),)
    out, gap = [], learnt_gap(frame)
    if gap is not None and gap.count >= LEARNT_COUNT:
        what = {"training": "the next step", "evaluation": "the next result"}.get(
            frame.phase.name, "the end of the save"
        )
        out.append(Expected(what=what, by_at=last + gap.longest_seconds, why="the longest pause so far"))
    short, long = agreeing_limit(frame, limits.agreeing), single_limit(frame, limits.single)
    out.append(Expected(what="a page, if nothing moves", by_at=last + min(short.seconds, long.seconds)))
    return tuple(out)


def _done_at(frame: Frame, facts: RunFacts, stands: float | None) -> float | None:
    """At the usual pace; None where that is not known or the run stands still."""
    if stands is not None or facts.last_step is None or facts.total_steps is None or facts.step_seconds is None:
        return None
    if facts.last_step >= facts.total_steps or frame.attempt.end_marker_at is not None:
        return None
    return frame.now + (facts.total_steps - facts.last_step) * facts.step_seconds


def _at_risk(frame: Frame) -> int | None:
    saved, last = frame.last_checkpoint_step, frame.progress.last_step
    return last - saved if saved is not None and last is not None and last >= saved else None


def _power_known(frame: Frame) -> int:
    power = frame.history.power_watts[-3:]
    return int((~np.isnan(power).all(axis=0)).sum()) if len(power) else 0


def _notes(frame: Frame) -> Iterable[str]:
    """What stands in the way of watching it, with what to do."""
    dark = [node for node in frame.nodes if node.reachable is False]
    for node in dark[:5]:
        yield f"{node.name} does not answer: {node.error}"
    if len(dark) > 5:
        yield f"and {len(dark) - 5} more nodes do not answer"
    for source in [one for one in frame.log_sources if one.error][:5]:
        yield f"{source.path}: {source.error}"
    if not frame.nodes:
        yield "no node belongs to this run now: see nodes: in the daemon's file"
    if not frame.progress.source and frame.attempt.started_at is not None:
        yield "no step has been read from its log yet, so only power is watched: try `runwatch parse-log` on the log"
