"""Metrics of the runs: where each stands and what it taught. Pure; labels are names from the config and fixed words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from prometheus_client.core import Metric

from alerts.incidents import Incident
from detectors.frame import Frame, GapStats, StepRecord
from watcher.daemon.views import STATES, state_of
from watcher.families import gauge, info, one_hot

PHASES = ("startup", "training", "evaluation", "checkpoint", "finished")
UNITS = ("tokens_per_second", "samples_per_second", "tflops_per_gpu", "iterations_per_second")
T = TypeVar("T")
OTHER_UNIT = "other"  # as a log names it: any text


@dataclass(frozen=True, slots=True)
class RunGauge:
    name: str
    text: str
    value: Callable[[Frame], float | None]


GAUGES = (
    RunGauge("step", "Last step that the log told of.", lambda f: f.progress.last_step),
    RunGauge("target_steps", "Step at which the run is complete.", lambda f: f.progress.total_steps),
    RunGauge(
        "step_duration_seconds",
        "Time of one step in the last record.",
        lambda f: _last(f, lambda record: record.step_seconds),
    ),
    RunGauge("loss", "Last loss, NaN and infinities kept.", lambda f: _last(f, lambda record: record.loss)),
    RunGauge("gradient_norm", "Last norm of the gradient.", lambda f: _last(f, lambda record: record.grad_norm)),
    RunGauge("attempt", "Number of the present launch.", lambda f: f.attempt.number),
    RunGauge(
        "attempt_start_timestamp_seconds", "When the present launch began.", lambda f: f.attempt.started_at
    ),
    RunGauge(
        "last_progress_timestamp_seconds",
        "When a step or a phase's own counter last moved.",
        lambda f: f.progress.last_progress_at,
    ),
    RunGauge(
        "last_line_timestamp_seconds", "When the log last had a line of any kind.", lambda f: f.progress.last_line_at
    ),
    RunGauge(
        "last_checkpoint_timestamp_seconds", "When a checkpoint was last completed.", lambda f: f.last_checkpoint_at
    ),
    RunGauge(
        "longest_gap_seconds",
        "Longest learnt time between two signs of progress in the present phase.",
        lambda f: _gap(f, lambda gap: gap.longest_seconds),
    ),
    RunGauge(
        "median_gap_seconds",
        "Usual time between two signs of progress in the present phase.",
        lambda f: _gap(f, lambda gap: gap.median_seconds),
    ),
    RunGauge(
        "working_power_watts",
        "Learnt median power of a GPU while steps advance.",
        lambda f: f.learnt.power.run_median_watts if f.learnt.power is not None else None,
    ),
    RunGauge(
        "working_power_spread_watts",
        "Learnt spread of that power, one standard deviation.",
        lambda f: f.learnt.power.run_spread_watts if f.learnt.power is not None else None,
    ),
    RunGauge("nodes", "Nodes of the run.", lambda f: len(f.nodes)),
    RunGauge(
        "nodes_answering",
        "Nodes of the run whose agent answered last time.",
        lambda f: sum(node.reachable is True for node in f.nodes),
    ),
    RunGauge("gpus", "GPUs of the run that were seen.", lambda f: len(f.gpus)),
    RunGauge(
        "progress_known", "1 where a step or phase counter was ever read, else 0.", lambda f: f.progress.source
    ),
)  # fmt: skip


def run_metrics(frames: Mapping[str, Frame], incidents: Collection[Incident]) -> Iterator[Metric]:
    """One row a run and what is not known of it left out."""
    runs = sorted(frames.items())
    yield info("runwatch_run", "The job that the run is now.", ["run"], (((run,), _job(frame)) for run, frame in runs))
    yield gauge(
        "runwatch_run_node_info",
        "1 for each node of the run, to join series of nodes and GPUs with.",
        ["run", "node"],
        (((run, node), 1.0) for run, frame in runs for node in sorted({view.name for view in frame.nodes})),
    )
    yield one_hot(
        "runwatch_run_state",
        "1 for the state of the run in one word, 0 for the others.",
        ["run", "state"],
        STATES,
        (((run,), state_of(frame, [i for i in incidents if i.run == run])) for run, frame in runs),
    )
    yield one_hot(
        "runwatch_run_phase",
        "1 for the present phase of the run, 0 for the others.",
        ["run", "phase"],
        PHASES,
        (((run,), frame.phase.name) for run, frame in runs),
    )
    for item in GAUGES:
        name = f"runwatch_run_{item.name}"
        yield gauge(name, item.text, ["run"], (((run,), item.value(frame)) for run, frame in runs))
    yield gauge(
        "runwatch_run_throughput",
        "Throughput as the log prints it, never converted.",
        ["run", "unit"],
        (((run, unit), value) for run, frame in runs for unit, value in _rates(frame).items()),
    )


def _job(frame: Frame) -> dict[str, str]:
    return {"job_id": (frame.scheduler.job_id if frame.scheduler is not None else None) or ""}


def _rates(frame: Frame) -> dict[str, float]:
    rates = _last(frame, lambda record: record.rates) or {}
    named = {unit: value for unit, value in rates.items() if unit in UNITS}
    other = next((value for unit, value in rates.items() if unit not in UNITS), None)
    return named if other is None else named | {OTHER_UNIT: other}


def _last(frame: Frame, pick: Callable[[StepRecord], T]) -> T | None:
    return pick(frame.progress.records[-1]) if frame.progress.records else None


def _gap(frame: Frame, pick: Callable[[GapStats], float]) -> float | None:
    gap = frame.learnt.gaps.get(frame.phase.name)
    return pick(gap) if gap is not None else None
