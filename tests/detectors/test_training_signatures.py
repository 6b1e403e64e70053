"""Losses, pace and saves over frames made by hand: what is said, and which healthy thing beside it is not."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from detectors.frame import GapStats, Learnt, Pace, Strike
from detectors.registry import load_plugins
from detectors.verdict import Finding, Firing, Unknown
from tests.support.frames import NOW, frame, records

PLUGINS = load_plugins()
NAN, INF = math.nan, math.inf
NOISE = random.Random(7)


def judge(name: str, seen, **settings):
    plugin = PLUGINS[name]
    return plugin.build(plugin.config(**settings)).check(seen)


def found(name: str, seen, **settings) -> list[Finding]:
    verdict = judge(name, seen, **settings)
    assert not isinstance(verdict, Unknown), verdict.reason
    return list(verdict.findings) if isinstance(verdict, Firing) else []


def noisy(count: int, level: float = 2.0, noise: float = 0.02) -> list[float]:
    return [level + NOISE.uniform(-noise, noise) for _ in range(count)]


def losses(values: list[float], **more):
    return frame(progress={"records": records(values, **more)})


@pytest.mark.parametrize(
    ("values", "fires"),
    [
        pytest.param([2.0] * 9 + [NAN] * 3, True, id="NaN in three records running"),
        pytest.param([2.0] * 9 + [INF] * 3, True, id="infinity is as bad"),
        pytest.param([2.0] * 9 + [-INF, NAN, INF], True, id="in any mixture"),
        pytest.param([2.0] * 9 + [NAN] * 2, False, id="two may be an overflow"),
        pytest.param([2.0, NAN] * 9, False, id="every other record is not running"),
        pytest.param([NAN] * 20 + [2.0], False, id="it has come back"),
        pytest.param([NAN] * 3, True, id="from the first step on"),
        pytest.param([0.0] * 20, False, id="a loss of zero is a number"),
    ],
)
def test_loss_nan(values, fires):
    assert bool(found("loss_nan", losses(values))) is fires


def test_loss_nan_names_the_first_bad_step_whatever_the_log_interval():
    (one,) = found("loss_nan", losses([2.0] * 9 + [NAN] * 4, stride=50))
    assert one.evidence["first_bad_step"] == 500
    assert one.severity.label == "critical"


def test_records_that_all_count_nan_steps_are_told():
    assert found("loss_nan", losses([2.0] * 12, nan_steps=1))
    assert not found("loss_nan", losses([2.0] * 12, nan_steps=0))


@pytest.mark.parametrize(
    ("count", "stride", "skipped", "fires"),
    [
        pytest.param(60, 1, 1, True, id="sixty steps one by one"),
        pytest.param(34, 1, 1, False, id="a scaler that comes down from 2^32"),
        pytest.param(4, 100, 100, True, id="three whole records of a hundred"),
        pytest.param(60, 10, 9, False, id="one step in ten still counts"),
        pytest.param(60, 1, 0, False, id="none skipped"),
        pytest.param(60, 1, None, False, id="the log does not say"),
    ],
)
def test_endless_skipping(count, stride, skipped, fires):
    rows = records([2.0] * count, stride=stride, skipped_steps=skipped)
    assert bool(found("loss_nan", frame(progress={"records": rows}))) is fires


@pytest.mark.parametrize(
    ("scales", "fires"),
    [
        pytest.param([65536.0 / 2**i for i in range(17)] + [1.0] * 3, True, id="it fell there and stays"),
        pytest.param([65536.0 / 2**i for i in range(17)], False, id="it has only just come there"),
        pytest.param([1.0] * 40, False, id="bf16 is there always"),
        pytest.param([4.0, 2.0, 1.0, 1.0, 1.0], False, id="a scale that never stood high"),
        pytest.param([65536.0, *[1.0] * 5, 2.0], False, id="it rises again"),
    ],
)
def test_a_loss_scale_on_its_floor(scales, fires):
    rows = tuple(replace(r, loss_scale=scale) for r, scale in zip(records([2.0] * len(scales)), scales, strict=True))
    assert bool(found("loss_nan", frame(progress={"records": rows}))) is fires


def test_a_log_without_losses_is_not_called_well():
    assert isinstance(judge("loss_nan", losses([])), Unknown)
    assert isinstance(judge("loss_spike", losses([])), Unknown)


@pytest.mark.parametrize(
    ("values", "stride", "severity"),
    [
        pytest.param([*noisy(200), 3.0], 1, "warning", id="a jump is a warning at once"),
        pytest.param([*noisy(200), *noisy(60, 3.0)], 1, "critical", id="one that stays for fifty steps is critical"),
        pytest.param([*noisy(200), *noisy(3, 3.0)], 50, "critical", id="fifty steps are two records of fifty"),
        pytest.param([*noisy(200), 3.0, 2.0], 1, None, id="one that came back is over"),
        pytest.param([*noisy(200), 2.1], 1, None, id="within a tenth is noise"),
        pytest.param(noisy(300, 2.0, 0.5), 1, None, id="a noisy loss has no spikes"),
        pytest.param([9 - i / 40 for i in range(300)], 1, None, id="a falling loss"),
        pytest.param([*noisy(30), 3.0], 1, None, id="none in the first fifty steps"),
        pytest.param([*noisy(200), NAN], 1, None, id="NaN is for another signature"),
        pytest.param([*(-v for v in noisy(200)), -1.0], 1, "warning", id="a loss below zero jumps upwards too"),
    ],
)
def test_loss_spike(values, stride, severity):
    told = found("loss_spike", losses(values, stride=stride))
    assert [f.severity.label for f in told] == ([] if severity is None else [severity])


def pace(*stretches: tuple[int, float], noise: float = 0.005, worlds: tuple[int, ...] = ()) -> Pace:
    """Stretches of (minutes, seconds a step), the last minute is now."""
    seconds, world = [], []
    for place, (minutes, level) in enumerate(stretches):
        seconds += [level * (1 + NOISE.uniform(-noise, noise)) for _ in range(minutes)]
        world += [(1, worlds[place] if worlds else 8, 64)] * minutes
    at = tuple(NOW - 60.0 * (len(seconds) - 1 - i) for i in range(len(seconds)))
    return Pace(at=at, step_seconds=tuple(seconds), records=(3,) * len(seconds), world=tuple(world))


@pytest.mark.parametrize(
    ("seen", "severity"),
    [
        pytest.param(pace((60, 10.0), (20, 10.6)), "warning", id="six percent for twenty minutes"),
        pytest.param(pace((60, 10.0), (20, 14.0)), "critical", id="forty percent"),
        pytest.param(pace((60, 10.0), (5, 14.0)), None, id="five minutes are too short"),
        pytest.param(pace((60, 10.0), (20, 10.1)), None, id="one percent is jitter"),
        pytest.param(pace((60, 10.0), (20, 9.0)), None, id="faster is no drop"),
        pytest.param(pace((60, 10.0), (20, 12.0), (30, 10.0)), None, id="it has come back"),
        pytest.param(pace((60, 10.0), (20, 20.0), worlds=(8, 4)), None, id="half of the world is another pace"),
        pytest.param(pace((60, 10.0), (20, 10.6), noise=0.2), None, id="within the run's own jitter"),
    ],
)
def test_throughput_drop(seen, severity):
    verdict = judge("throughput_drop", frame(progress={"pace": seen}))
    told = verdict.findings if isinstance(verdict, Firing) else ()
    assert [f.severity.label for f in told] == ([] if severity is None else [severity])


def test_a_pace_of_a_few_minutes_cannot_be_judged():
    assert isinstance(judge("throughput_drop", frame(progress={"pace": pace((3, 10.0))})), Unknown)


def test_a_floor_is_judged_in_its_own_unit_and_only_where_one_is_set():
    slow = frame(progress={"records": records([2.0] * 80, rates={"tokens_per_second": 900.0}, step_seconds=10.0)})
    assert found("throughput_floor", slow) == []
    assert found("throughput_floor", slow, floor=1000.0)[0].evidence["unit"] == "tokens_per_second"
    assert found("throughput_floor", slow, floor=800.0) == []
    assert found("throughput_floor", slow, floor=0.2, unit="steps")
    assert isinstance(judge("throughput_floor", slow, floor=1.0, unit="samples"), Unknown)


def test_a_floor_waits_for_a_full_window():
    young = frame(progress={"records": records([2.0] * 20, rates={"tokens_per_second": 900.0})})
    assert isinstance(judge("throughput_floor", young, floor=1000.0), Unknown)


def test_one_slow_record_in_the_window_is_no_slow_run():
    rows = list(records([2.0] * 80, rates={"tokens_per_second": 1200.0}))
    rows[-1] = records([2.0], rates={"tokens_per_second": 1.0})[0]
    assert found("throughput_floor", frame(progress={"records": tuple(rows)}), floor=1000.0) == []


def saved(ago: float, usual: float = 1200.0, count: int = 4, **more):
    interval = GapStats(longest_seconds=usual, median_seconds=usual, count=count)
    attempt, progress = more.pop("attempt", {}), {"first_step_at": NOW - 50_000, **more.pop("progress", {})}
    return frame(
        learnt=Learnt(save_interval=interval), last_checkpoint_at=NOW - ago, last_checkpoint_step=60,
        attempt={"started_at": NOW - 50_100, **attempt}, progress=progress,
    )  # fmt: skip


def test_a_save_three_times_late_is_told_with_what_would_be_lost():
    (one,) = found("checkpoint_overdue", saved(3700))
    assert "40 steps, 1 h 1 m, would be lost now" in one.summary
    assert one.severity.label == "warning"


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(saved(3500), id="within three intervals"),
        pytest.param(saved(200, usual=30), id="five minutes at least"),
        pytest.param(
            saved(9000, progress={"first_step_at": NOW - 600}), id="counted from the first step of an attempt"
        ),
        pytest.param(saved(9000, attempt={"end_marker_at": NOW - 60}), id="the run is over"),
        pytest.param(saved(9000, attempt={"stopped": "cancelled"}), id="the run was cancelled"),
    ],
)
def test_saves_that_are_not_overdue(seen):
    assert found("checkpoint_overdue", seen) == []


def test_how_often_it_saves_has_to_be_seen_first():
    assert isinstance(judge("checkpoint_overdue", saved(9000, count=1)), Unknown)


def test_where_only_starts_are_told_the_limit_is_wider():
    seen = saved(1000, usual=60)
    assert found("checkpoint_overdue", seen)
    implied = replace(seen, learnt=replace(seen.learnt, saves_implied=True))
    assert found("checkpoint_overdue", implied) == []
    assert found("checkpoint_overdue", replace(implied, last_checkpoint_at=NOW - 1900))


def unfinished(ago: float, moved: float = 5.0, length: float | None = 120.0, interval: float = 1200.0):
    seen = saved(1000)
    told = None if length is None else GapStats(longest_seconds=length, median_seconds=length, count=4)
    usual = GapStats(longest_seconds=interval, median_seconds=interval, count=4)
    learnt = Learnt(save_interval=usual, save_length=told)
    moving = replace(seen.progress, last_step_at=NOW - moved)
    return replace(seen, learnt=learnt, save_started_at=NOW - ago, progress=moving)


@pytest.mark.parametrize(
    ("seen", "fires"),
    [
        pytest.param(unfinished(1900), True, id="training goes on and it never ends"),
        pytest.param(unfinished(1700), False, id="half an hour is given to each"),
        pytest.param(unfinished(1900, length=900.0), False, id="a run whose saves take long"),
        pytest.param(unfinished(1900, interval=7200.0), False, id="the next save may tell the end"),
        pytest.param(unfinished(1900, moved=2000.0), False, id="all wait for it: a stall"),
        pytest.param(unfinished(1900, length=None), False, id="a log that never told an end"),
    ],
)
def test_a_save_that_began_and_never_ends(seen, fires):
    assert [f.summary.startswith("A save began") for f in found("checkpoint_overdue", seen)] == [True] * fires


def strike(node: str, ago: float, **more) -> Strike:
    return Strike(at=NOW - ago, node=node, kind=more.pop("kind", "ecc_uncorrectable"), **more)


@pytest.mark.parametrize(
    ("strikes", "named"),
    [
        pytest.param((strike("n2", 100), strike("n2", 90_000)), ["n2"], id="twice within a week"),
        pytest.param((strike("n2", 100), strike("n1", 90_000)), [], id="once on each of two nodes"),
        pytest.param((strike("n2", 100), strike("n2", 8 * 86_400)), [], id="the other one is older than a week"),
        pytest.param((strike("n2", 100), strike("n2", 900, counted=False)), [], id="one that does not count"),
        pytest.param((strike("n9", 100), strike("n9", 90_000)), [], id="on a node that the run does not use"),
        pytest.param((strike("n2", 9000), strike("n2", 100, kind="crash_start")), ["n2"], id="a crash after a fault"),
    ],
)
def test_repeated_ecc(strikes, named):
    told = found("repeated_ecc", frame(strikes=strikes))
    assert [f.subject.node for f in told] == named
    assert all(f"--exclude={f.subject.node}" in f.summary for f in told)


def test_a_floor_is_judged_in_a_log_of_twenty_lines_a_second():
    def fast(seconds: float):
        rows = records([2.0] * 1000, every=0.05, rates={"tokens_per_second": 500.0 / seconds}, step_seconds=seconds)
        return frame(progress={"records": rows, "pace": pace((30, seconds))})

    assert found("throughput_floor", fast(0.05), floor=20_000.0)
    assert found("throughput_floor", fast(0.05), floor=5_000.0) == []


def test_a_floor_is_judged_in_a_log_of_one_line_in_five_minutes():
    rows = records([2.0] * 12, every=300.0, stride=50, rates={"tokens_per_second": 900.0})
    assert found("throughput_floor", frame(progress={"records": rows}), floor=1000.0)
    assert found("throughput_floor", frame(progress={"records": rows}), floor=800.0) == []


def test_a_floor_says_nothing_of_a_run_that_has_stopped():
    rows = tuple(r for r in records([2.0] * 400, rates={"tokens_per_second": 900.0}) if r.at < NOW - 900)
    assert isinstance(judge("throughput_floor", frame(progress={"records": rows}), floor=1000.0), Unknown)
