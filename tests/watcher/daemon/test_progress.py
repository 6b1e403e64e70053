"""Log events -> attempt, phase, progress and gaps."""

from __future__ import annotations

import math

import pytest

from watcher.daemon.bursts import burst_seconds
from watcher.daemon.progress import RunProgress
from watcher.events import LogEvent


def step(number: int, **more) -> LogEvent:
    return LogEvent(event="step", step=number, **more)


def phase(name: str, edge: str) -> LogEvent:
    return LogEvent(event="phase", phase=name, edge=edge)


def told(*events: tuple[float, LogEvent]) -> RunProgress:
    run = RunProgress()
    for at, event in events:
        run.event(at, event)
    return run


def stepping(first: int, last: int, start: float, every: float = 10.0) -> list[tuple[float, LogEvent]]:
    return [(start + i * every, step(n)) for i, n in enumerate(range(first, last + 1))]


def test_a_line_begins_an_attempt_and_is_no_progress():
    run = RunProgress()
    assert run.attempt.started_at is None
    run.line(5.0)
    assert run.attempt.started_at == 5.0
    assert run.progress().last_progress_at is None
    assert run.phase.name == "startup"


def test_only_a_step_ends_the_startup():
    run = told((1, phase("startup", "start")), (2, phase("training", "start")), (3, phase("evaluation", "start")))
    assert run.phase.name == "evaluation"
    run.event(4, phase("evaluation", "end"))
    assert run.phase.name == "startup"
    run.event(5, step(1))
    assert run.phase.name == "training"


@pytest.mark.parametrize(
    ("events", "number"),
    [
        pytest.param(stepping(1, 50, 0), 1, id="steps go on"),
        pytest.param([*stepping(1, 50, 0), *stepping(20, 30, 900)], 2, id="the step goes back to a save"),
        pytest.param([*stepping(1, 50, 0), (600, step(49))], 1, id="a late line of another file is no restart"),
        pytest.param([*stepping(1, 50, 0), (600, phase("startup", "start")), (900, step(51))], 2, id="a banner"),
        pytest.param(
            [(0, phase("startup", "start")), (1, phase("startup", "start")), *stepping(1, 9, 60)],
            1,
            id="a banner of several lines",
        ),
        pytest.param(
            [*stepping(1, 50, 0), (600, LogEvent(event="error", kind="ecc")), *stepping(48, 60, 900)],
            2,
            id="an error, then a few steps back",
        ),
        pytest.param(
            [*stepping(1, 50, 0), (600, phase("finished", "start")), (900, step(51))],
            2,
            id="goes on after an end marker",
        ),
        pytest.param(
            [
                *[(t, step(100, rank=r)) for r, t in enumerate((1, 2, 3))],
                (9, step(101, rank=0)),
                (9.1, step(101, rank=1)),
            ],
            1,
            id="ranks print the same step",
        ),
    ],
)
def test_attempts(events, number):
    assert told(*events).attempt.number == number


def test_a_new_attempt_forgets_gaps_errors_and_open_phases_and_keeps_the_past():
    run = told(*stepping(1, 9, 0), (100, phase("checkpoint", "start")), (110, LogEvent(event="error", kind="ecc")))
    run.event(500, phase("startup", "start"))
    assert run.attempt.number == 2
    assert run.attempt.errors == ()
    assert run.gaps == {}
    assert run.phase.name == "startup"
    (past,) = run.past
    assert (past.number, past.last_step, past.ends, past.cause.kind) == (1, 9, "crashed", "ecc")


def test_gaps_are_kept_under_the_phase_in_which_they_were_waited_for():
    run = told(
        *stepping(1, 5, 0, 10), (45, phase("checkpoint", "start")), (105, phase("checkpoint", "end")), (115, step(6))
    )
    assert run.gaps["training"].stats().longest_seconds == 10
    assert run.gaps["checkpoint"].stats().longest_seconds == 60
    assert run.durations["checkpoint"].stats().longest_seconds == 60


def test_a_counter_inside_a_phase_is_progress_but_no_record():
    run = told(*stepping(1, 3, 0), (30, phase("evaluation", "start")), (50, LogEvent(event="progress", counter=4)))
    progress = run.progress()
    assert progress.last_progress_at == 50
    assert progress.last_step == 3
    assert len(progress.records) == 3


def test_the_final_step_is_an_end_unless_more_steps_follow():
    run = told((0, step(99, total_steps=100)), (10, step(100, total_steps=100)))
    assert run.phase.name == "finished"
    assert run.attempt.end_marker_at == 10
    run.event(20, step(101, total_steps=200))
    assert run.phase.name == "training"
    assert run.attempt.end_marker_at is None


def test_an_end_marker_before_the_target_is_no_completion():
    run = told((0, step(50, total_steps=100)), (10, phase("finished", "start")))
    assert run.attempt.ended_early


@pytest.mark.parametrize(("kind", "stopped"), [("slurm_cancelled", "cancelled"), ("slurm_time_limit", "time_limit")])
def test_an_end_on_purpose_is_told_from_a_crash(kind, stopped):
    run = told(*stepping(1, 3, 0), (50, LogEvent(event="error", kind=kind)))
    assert run.attempt.stopped == stopped


def test_nan_losses_are_kept():
    run = told((0, step(1, loss=math.nan)))
    assert math.isnan(run.records[-1].loss)


@pytest.mark.parametrize(
    ("arrivals", "bursty"),
    [
        pytest.param([(i * 10.0, i) for i in range(40)], False, id="a line every step"),
        pytest.param([(i * 0.3 + (90 if i > 20 else 0), i) for i in range(40)], False, id="fast steps with one save"),
        pytest.param([(1200.0 * (i // 12) + (i % 12) * 0.01, i) for i in range(48)], True, id="a dozen every 20 min"),
        pytest.param([(0.0, 1), (0.0, 2)], False, id="too few to tell"),
    ],
)
def test_bursts(arrivals, bursty):
    assert (burst_seconds(arrivals, ()) > 0) == bursty
