"""How often a run saves, as its log tells it: with starts and ends, with starts alone, with many lines for one save."""

from __future__ import annotations

import pytest

from watcher.daemon.progress import RunProgress
from watcher.daemon.saved import dump_progress, load_progress
from watcher.events import LogEvent

EVERY, SAVES = 10.0, 4


def told(edges: list[tuple[float, str]], interval: float = 600.0) -> RunProgress:
    """A run that saves at even intervals; each save prints `edges` (seconds after its start, edge)."""
    run = RunProgress()
    said = [(EVERY * i, LogEvent(event="step", step=i)) for i in range(1, int(interval / EVERY) * (SAVES + 1))]
    for number in range(1, SAVES + 1):
        said += [
            (number * interval + 1 + after, LogEvent(event="phase", phase="checkpoint", edge=edge))
            for after, edge in edges
        ]
    for at, event in sorted(said, key=lambda item: item[0]):
        run.event(at, event)
    return run


@pytest.mark.parametrize(
    "edges",
    [
        pytest.param([(0, "start"), (2, "end")], id="a start and an end"),
        pytest.param([(0, "start"), (1, "end"), (2, "end"), (3, "end")], id="an end for each file"),
        pytest.param([(0, "start"), (1, "start"), (2, "end"), (3, "start"), (4, "end")], id="many of both"),
        pytest.param([(0, "end")], id="ends alone"),
        pytest.param([(0, "start")], id="starts alone: the next step says that it is done"),
        pytest.param([(0, "start"), (95, "end")], id="beside the steps"),
    ],
)
def test_the_interval_is_that_of_the_saves_and_not_of_their_lines(edges):
    run = told(edges)
    stats = run.saves.interval.stats()
    assert stats is not None
    assert stats.count == SAVES - 1
    assert stats.median_seconds == pytest.approx(600, abs=10)
    assert run.saves.started_at is None


def test_a_save_beside_the_steps_that_never_ends_is_under_way():
    run = told([(0, "start"), (95, "end")])
    assert run.saves.length.stats().longest_seconds == pytest.approx(95)
    run.event(3001, LogEvent(event="phase", phase="checkpoint", edge="start"))
    run.event(3010, LogEvent(event="step", step=301))
    assert run.saves.started_at == 3001


def test_a_new_attempt_has_no_save_under_way_and_its_first_interval_is_its_own():
    run = told([(0, "start"), (2, "end")])
    run.event(3001, LogEvent(event="phase", phase="checkpoint", edge="start"))
    run.event(9000, LogEvent(event="phase", phase="startup", edge="start"))
    assert run.saves.started_at is None
    run.event(9100, LogEvent(event="step", step=250))
    run.event(9200, LogEvent(event="phase", phase="checkpoint", edge="end"))
    assert run.saves.interval.stats().longest_seconds == pytest.approx(600, abs=10)


def test_it_outlives_the_daemon():
    run = told([(0, "start"), (2, "end")])
    assert load_progress(dump_progress(run)).saves.dump() == run.saves.dump()
