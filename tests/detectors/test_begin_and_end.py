"""How attempts begin and end, over scripted runs: start-up, crash, completion, restarts, and what stays quiet."""

from __future__ import annotations

import pytest

from detectors.frame import Scheduler
from tests.support.runs import FREE, IDLE, QUIET_HOST, SPIN, START, WORK, Level, ScriptedRun, opened, resolved
from watcher.events import LogEvent

BANNER = LogEvent(event="phase", phase="startup", edge="start")
END = LogEvent(event="phase", phase="finished", edge="start")
OOM = LogEvent(event="error", kind="oom_gpu", message="CUDA out of memory", rank=3, host="n2")
PEER = LogEvent(event="error", kind="nccl_error", message="remote peer closed", rank=0, host="n1", cascade=True)


def at(transition) -> float:
    return transition.at - START


def told(run: ScriptedRun) -> list[str]:
    return [t.incident.signature for t in opened(run.transitions)]


def trained(until: float = 1800, **kwargs) -> ScriptedRun:
    run = ScriptedRun(**kwargs)
    run.steps(60, until, 10, 1, total_steps=100_000)
    run.play(until)
    assert not opened(run.transitions)
    return run


def died(run: ScriptedRun, t: float, *events: LogEvent) -> None:
    """Errors at `t`, and all processes let go ten seconds later."""
    for i, event in enumerate(events):
        run.say(t + i, event)
    run.level = lambda node, index, now: WORK if now < t + 10 else FREE


def test_a_first_step_that_never_comes_is_a_warning_and_then_a_page():
    run = ScriptedRun()
    run.say(20, BANNER)
    run.level = lambda node, index, t: IDLE
    run.say(200, LogEvent(event="phase", phase="training", edge="start"))
    changes = run.play(2400)
    (first,) = opened(changes)
    assert first.incident.signature == "startup_stall"
    assert first.incident.severity.label == "warning"
    assert 900 <= at(first) - 20 <= 930
    raised = next(t for t in changes if t.incident.severity.label == "critical")
    assert 1800 <= at(raised) - 20 <= 1830


@pytest.mark.parametrize(
    ("blind", "seconds"),
    [pytest.param((), 310, id="all do nothing"), pytest.param(("n2",), 1810, id="one cannot be seen")],
)
def test_a_start_in_which_all_hosts_do_nothing_is_a_page_after_five_minutes(blind, seconds):
    run = ScriptedRun()
    run.say(20, BANNER)
    run.say(40, LogEvent(event="phase", phase="training", edge="start"))
    run.level = lambda node, index, t: SPIN
    run.host = lambda node, t: None if node in blind else QUIET_HOST
    changes = run.play(2400)
    page = next(t for t in changes if t.incident.severity.label == "critical")
    assert at(page) - 20 == pytest.approx(seconds, abs=20)


def test_the_first_step_ends_it():
    run = ScriptedRun()
    run.say(20, BANNER)
    run.say(200, LogEvent(event="phase", phase="training", edge="start"))
    run.level = lambda node, index, t: IDLE if t < 1500 else WORK
    run.steps(1500, 1800, 10, 1)
    changes = run.play(1800)
    assert len(opened(changes, "startup_stall")) == 1
    assert len(resolved(changes, "startup_stall")) == 1


def test_machines_without_a_launch_are_no_start_that_hangs():
    run = ScriptedRun()
    run.level = lambda node, index, t: FREE
    run.play(7200)
    assert told(run) == []


def test_a_run_that_ends_well_is_one_notice():
    run = ScriptedRun()
    run.steps(60, 1800, 10, 1, total_steps=175)
    run.level = lambda node, index, t: WORK if t < 1830 else FREE
    run.play(5400)
    assert told(run) == ["completed"]
    assert opened(run.transitions)[0].incident.severity.label == "info"


def test_an_end_whose_processes_stay_is_a_warning_after_ten_minutes():
    run = ScriptedRun()
    run.steps(60, 1800, 10, 1, total_steps=175)
    run.level = lambda node, index, t: WORK if t < 1830 else IDLE
    run.play(3600)
    (one,) = opened(run.transitions)
    assert one.incident.signature == "teardown_stall"
    assert one.incident.severity.label == "warning"
    assert 600 <= at(one) - 1800 <= 630
    run.level = lambda node, index, t: FREE
    after = run.play(3900)
    assert len(resolved(after, "teardown_stall")) == 1
    assert len(opened(after, "completed")) == 1


def test_a_log_that_falls_silent_while_gpus_work_is_a_warning():
    run = trained()
    run.play(3000)
    (one,) = opened(run.transitions)
    assert one.incident.signature == "log_silent"
    assert one.incident.severity.label == "warning"
    assert 600 <= at(one) - 1800 <= 630


def test_a_crash_names_the_first_error_its_rank_and_node_and_not_the_last():
    run = trained()
    died(run, 1810, OOM, PEER)
    (page,) = opened(run.play(2100))
    assert page.incident.signature == "crash"
    assert "oom_gpu on node n2, rank 3" in page.incident.summary
    assert 120 <= at(page) - 1810 <= 150


def test_a_rank_that_prints_late_does_not_take_the_blame():
    run = trained()
    run.say(1811, PEER)
    run.say(1810, OOM)
    run.level = lambda node, index, t: WORK if t < 1820 else FREE
    (page,) = opened(run.play(2100))
    assert page.incident.evidence["cause"]["kind"] == "oom_gpu"


def test_a_restart_within_two_minutes_pages_nobody():
    run = trained()
    run.say(1810, OOM)
    run.level = lambda node, index, t: FREE if 1820 <= t < 1880 else WORK
    run.say(1890, BANNER)
    run.steps(1950, 3000, 10, 170)
    run.play(3000)
    assert told(run) == []


def test_an_exit_without_a_word_is_a_crash_too():
    run = trained()
    run.level = lambda node, index, t: FREE
    run.play(2400)
    assert told(run)[0] == "crash"


def test_an_error_that_is_caught_is_no_crash():
    run = ScriptedRun()
    run.steps(60, 3600, 10, 1)
    run.say(1805, OOM)
    run.play(3600)
    assert told(run) == []


@pytest.mark.parametrize("kind", ["slurm_cancelled", "slurm_time_limit"])
def test_what_was_ended_on_purpose_did_not_crash(kind):
    run = trained()
    died(run, 1810, LogEvent(event="error", kind=kind, message="CANCELLED"), PEER)
    run.play(2600)
    assert "crash" not in told(run)


def test_a_run_at_its_time_limit_that_nothing_goes_on_with_is_paged_after_a_quarter_of_an_hour():
    run = trained()
    died(run, 1810, LogEvent(event="error", kind="slurm_time_limit", message="DUE TO TIME LIMIT"))
    run.play(4000)
    (page,) = opened(run.transitions)
    assert page.incident.signature == "not_restarted"
    assert page.incident.severity.label == "critical"
    assert "no scheduler is asked" in page.incident.summary
    assert 900 <= at(page) - 1810 <= 940


def test_a_run_that_a_person_cancelled_and_nobody_starts_again_is_told():
    run = trained()
    died(run, 1810, LogEvent(event="error", kind="slurm_cancelled", message="CANCELLED"))
    run.play(4000)
    assert [(t.incident.signature, t.incident.severity.label) for t in opened(run.transitions)] == [
        ("not_restarted", "critical")
    ]


def test_a_successor_that_waits_in_the_queue_is_a_restart():
    run = trained()
    died(run, 1810, LogEvent(event="error", kind="slurm_time_limit", message="DUE TO TIME LIMIT"))
    for until in range(2000, 4001, 200):
        run.fold.observe_scheduler(START + until - 200, Scheduler(state="timeout", successor_waits=True))
        run.play(until)
    assert told(run) == []


def test_a_crash_that_nobody_restarts_says_so_as_what_follows_from_it():
    run = trained()
    died(run, 1810, OOM)
    run.play(4000)
    assert told(run) == ["crash", "not_restarted"]
    assert opened(run.transitions, "not_restarted")[0].incident.explained_by == ("train/crash",)


def test_the_new_attempts_first_step_ends_both():
    run = trained()
    died(run, 1810, OOM)
    run.play(4000)
    run.say(4010, BANNER)
    run.level = lambda node, index, t: WORK
    run.steps(4100, 4500, 10, 170)
    assert {t.incident.signature for t in resolved(run.play(4500))} == {"crash", "not_restarted"}


def loop(run: ScriptedRun, attempts: int, first_step: int, steps: int, start: float = 100.0) -> float:
    """Attempts that die after `steps` steps, five minutes apart; answers when the last one died."""
    t = start
    alive: list[tuple[float, float]] = []
    for _ in range(attempts):
        run.say(t, BANNER)
        last = t + 60 + 10 * steps
        run.steps(t + 60, last, 10, first_step)
        run.say(last + 2, OOM)
        alive.append((t, last + 5))
        t = last + 60
    run.level = lambda node, index, now: WORK if any(a <= now <= b for a, b in alive) else FREE
    return t


def test_three_attempts_that_die_young_are_a_loop():
    run = ScriptedRun()
    end = loop(run, 3, 1, 5)
    run.play(end)
    (page,) = opened(run.transitions, "crash_loop")
    assert page.incident.severity.label == "critical"
    assert "oom_gpu" in page.incident.summary


def test_two_are_none():
    run = ScriptedRun()
    run.play(loop(run, 2, 1, 5) - 40)
    assert "crash_loop" not in told(run)


def test_long_attempts_that_never_get_further_are_a_loop():
    run = ScriptedRun()
    run.say(50, BANNER)
    run.steps(60, 2060, 10, 1)
    run.say(2062, OOM)
    end = loop(run, 3, 100, 95, start=2200)
    first = run.level
    run.level = lambda node, index, t: WORK if t < 2070 else first(node, index, t)
    run.play(end)
    (page,) = opened(run.transitions, "crash_loop")
    assert "no step beyond 201" in page.incident.summary


def test_an_attempt_that_gets_further_ends_the_loop():
    run = ScriptedRun()
    end = loop(run, 3, 1, 5)
    run.play(end)
    run.say(end + 10, BANNER)
    run.level = lambda node, index, t: WORK
    run.steps(end + 100, end + 400, 10, 1)
    assert resolved(run.play(end + 400), "crash_loop")


def test_a_run_that_was_expected_and_is_not_there_is_told():
    run = ScriptedRun(settings={"expected_start_at": START + 600})
    run.level = lambda node, index, t: FREE
    run.play(3000)
    (one,) = opened(run.transitions)
    assert one.incident.signature == "not_started"
    assert 900 <= at(one) - 600 <= 930
    run.level = lambda node, index, t: WORK
    run.say(3050, BANNER)
    run.steps(3100, 3300, 10, 1)
    assert len(resolved(run.play(3300), "not_started")) == 1


def test_gpus_that_are_held_and_idle_while_others_work_are_told_after_half_an_hour():
    run = ScriptedRun()
    run.steps(60, 5000, 10, 1)
    run.level = lambda node, index, t: Level(utilization_ratio=0.0, power_watts=110) if index == 7 else WORK
    run.play(4000)
    (one,) = opened(run.transitions)
    assert one.incident.signature == "gpu_idle"
    assert one.incident.evidence["gpus_idle"] == 2


def test_gpus_that_nobody_holds_are_not_this_runs():
    run = ScriptedRun()
    run.steps(60, 5000, 10, 1)
    run.level = lambda node, index, t: FREE if index == 7 else WORK
    run.play(4000)
    assert told(run) == []


@pytest.mark.parametrize(
    ("every", "stride"), [(0.05, 1), (500.0, 50), (120.0, 1)], ids=["very fast", "interval 50", "slow"]
)
def test_a_healthy_run_is_quiet_whatever_its_pace(every, stride):
    run = ScriptedRun(gpus=2)
    run.steps(60, 7200 if every > 1 else 900, every, 1, stride)
    run.play(7200 if every > 1 else 900)
    assert told(run) == []


def test_one_bad_step_that_four_ranks_print_is_one_record_and_no_page():
    run = ScriptedRun(gpus=2)
    for step in range(1, 200):
        for rank in range(4):
            loss = float("nan") if step == 150 else 2.0
            run.say(60 + 10 * step + 0.1 * rank, LogEvent(event="step", step=step, rank=rank, loss=loss))
    run.play(2000)
    assert told(run) == []


def test_the_rank_that_is_behind_is_named_when_all_wait_for_it():
    run = ScriptedRun(gpus=2)
    for step in range(1, 121):
        for rank in range(4):
            if rank != 2 or step <= 100:
                run.say(60 + 10 * step + 0.1 * rank, LogEvent(event="step", step=step, rank=rank))
    run.level = lambda node, index, t: WORK if t <= 1260 else SPIN
    (page,) = opened(run.play(1800))
    assert "rank 2 (last step 100 of 120)" in page.incident.summary
