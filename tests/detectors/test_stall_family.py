"""The stall family over scripted runs: what pages, when, and which healthy thing next to it stays quiet."""

from __future__ import annotations

import pytest

from detectors.telemetry import HostReading
from tests.support.runs import FREE, IDLE, QUIET_HOST, SPIN, START, WORK, Level, ScriptedRun, opened, resolved
from watcher.events import LogEvent


def at(transition) -> float:
    return transition.at - START


def trained(until: float = 1800, every: float = 10.0, **kwargs) -> tuple[ScriptedRun, int]:
    """A run that has made steps up to second `until`."""
    run = ScriptedRun(**kwargs)
    last = run.steps(60, until, every, 1, total_steps=100_000)
    run.play(until)
    assert not opened(run.transitions)
    return run, last


def test_a_hang_at_low_power_pages_within_four_minutes_and_resolves_only_on_progress():
    run, last = trained()
    run.level = lambda node, index, t: SPIN
    hang = run.play(2400)
    (page,) = opened(hang)
    assert page.incident.signature == "low_power_deadlock"
    assert page.incident.severity.label == "critical"
    assert 120 <= at(page) - 1800 <= 240
    run.say(2500, LogEvent(event="phase", phase="startup", edge="start"))
    run.level = lambda node, index, t: IDLE
    assert not resolved(run.play(2900))
    run.level = lambda node, index, t: WORK
    run.steps(3000, 3300, 10, last - 20)
    (end,) = resolved(run.play(3300))
    assert 3000 <= at(end) <= 3060


def test_the_page_says_how_many_gpus_how_long_which_step_and_who_differs():
    run, last = trained()
    run.level = lambda node, index, t: IDLE if (node, index) == ("n2", 5) else SPIN
    (page,) = opened(run.play(2400))
    text = page.incident.summary
    assert "15 of 16 GPUs" in text
    assert f"last step {last}" in text
    assert "n2 gpu 5" in text
    assert page.incident.evidence["odd"]["gpu"] == "GPU-n2-0005"
    assert "NCCL" not in text


def test_a_port_that_is_down_is_named_on_the_page_of_the_stall():
    run, _ = trained()
    run.level = lambda node, index, t: SPIN
    run.host = lambda node, t: HostReading(links_down=("mlx5_3/1",) if node == "n2" else ())
    stall = next(page for page in opened(run.play(2400)) if page.incident.signature == "low_power_deadlock")
    assert "n2: mlx5_3/1 is down" in stall.incident.summary


def test_it_says_so_when_no_one_differs():
    run, _ = trained()
    run.level = lambda node, index, t: SPIN
    (page,) = opened(run.play(2400))
    assert "no one differs" in page.incident.summary


def test_an_endless_kernel_at_working_power_waits_for_the_single_signal_limit():
    run, _ = trained()
    run.level = lambda node, index, t: Level(power_watts=450, utilization_ratio=1.0, wobble_watts=1)
    (page,) = opened(run.play(3000))
    assert page.incident.signature == "busy_stall"
    assert 600 <= at(page) - 1800 <= 620


def test_idle_gpus_with_their_memory_held_are_an_idle_stall():
    run, _ = trained()
    run.level = lambda node, index, t: IDLE
    (page,) = opened(run.play(3000))
    assert page.incident.signature == "idle_stall"


def test_idle_gpus_and_hosts_that_do_nothing_agree_and_page_soon():
    run, _ = trained()
    run.level = lambda node, index, t: IDLE
    run.host = lambda node, t: QUIET_HOST
    (page,) = opened(run.play(3000))
    assert page.incident.signature == "idle_stall"
    assert 120 <= at(page) - 1800 <= 150
    assert "hosts do nothing" in page.incident.evidence["limit_origin"]


def test_a_save_not_seen_before_in_which_no_host_does_anything_pages_after_five_minutes():
    run, _ = trained()
    run.say(1805, LogEvent(event="phase", phase="checkpoint", edge="start"))
    run.level = lambda node, index, t: SPIN
    run.host = lambda node, t: QUIET_HOST
    (page,) = opened(run.play(3000))
    assert page.incident.signature == "low_power_deadlock"
    assert 300 <= at(page) - 1805 <= 330


def test_a_stall_sharpens_without_a_second_incident():
    run, _ = trained()
    run.level = lambda node, index, t: (
        Level(power_watts=450, utilization_ratio=1.0, wobble_watts=1) if t < 2700 else SPIN
    )
    changes = run.play(3300)
    assert len(opened(changes)) == 1
    assert [t.incident.signature for t in changes if t.event == "updated"] == ["low_power_deadlock"]


def test_readings_that_fail_neither_fire_nor_resolve():
    run, _ = trained()
    run.level = lambda node, index, t: SPIN
    assert len(opened(run.play(2200))) == 1
    run.level = lambda node, index, t: None
    assert not resolved(run.play(4000), "low_power_deadlock")


def test_a_save_that_has_been_seen_before_does_not_page_even_when_it_takes_twice_as_long():
    run = ScriptedRun()
    step, t = 1, 60.0
    saves = []
    for length in (100, 100, 100, 100, 250):
        step = run.steps(t, t + 600, 10, step) + 1
        t += 610
        run.say(t, LogEvent(event="phase", phase="checkpoint", edge="start"))
        run.say(t + length, LogEvent(event="phase", phase="checkpoint", edge="end"))
        saves.append((t, t + length))
        t += length
    run.steps(t, t + 300, 10, step)
    run.level = lambda node, index, now: SPIN if any(a <= now <= b for a, b in saves) else WORK
    assert not opened(run.play(t + 300))


def test_a_save_that_never_ends_pages_after_three_times_the_longest_one():
    run = ScriptedRun()
    step, t = 1, 60.0
    saves = []
    for length in (100, 100, 100, 100, 9_999):
        step = run.steps(t, t + 600, 10, step) + 1
        t += 610
        run.say(t, LogEvent(event="phase", phase="checkpoint", edge="start"))
        run.say(t + length, LogEvent(event="phase", phase="checkpoint", edge="end"))
        saves.append((t, t + length))
        t += length
    hang = saves[-1][0]
    run.level = lambda node, index, now: SPIN if any(a <= now <= b for a, b in saves) else WORK
    (page,) = opened(run.play(hang + 900))
    assert page.incident.signature == "low_power_deadlock"
    assert 300 <= at(page) - hang <= 330


@pytest.mark.parametrize("lost", ["start", "end"])
def test_a_lost_marker_of_a_save_disables_nothing(lost: str):
    run = ScriptedRun()
    step = run.steps(60, 600, 10, 1)
    edge = "end" if lost == "start" else "start"
    run.say(605, LogEvent(event="phase", phase="checkpoint", edge=edge))
    run.steps(640, 1800, 10, step + 1)
    run.level = lambda node, index, t: SPIN if t > 1800 else WORK
    (page,) = opened(run.play(2400))
    assert at(page) - 1800 <= 240


def test_steps_that_arrive_in_bursts_are_no_stall_while_gpus_work():
    run = ScriptedRun()
    for burst in range(12):
        for i in range(20):
            run.say(1200.0 * (burst + 1) + i * 0.01, LogEvent(event="step", step=burst * 20 + i + 1, step_seconds=60.0))
    assert not opened(run.play(14_300))


def test_a_first_step_that_takes_long_is_no_stall_although_all_wait_at_low_power():
    run = ScriptedRun()
    run.say(20, LogEvent(event="phase", phase="startup", edge="start"))
    run.level = lambda node, index, t: SPIN if t < 840 else WORK
    run.steps(850, 1500, 10, 1)
    assert not opened(run.play(1500))


def test_a_small_model_at_a_quarter_of_the_limit_pages_by_steps_alone():
    run = ScriptedRun(gpu_name="NVIDIA GeForce RTX 4090", limit_watts=450)
    run.level = lambda node, index, t: Level(power_watts=130, utilization_ratio=0.97, wobble_watts=8)
    run.steps(60, 1800, 10, 1)
    assert not opened(run.play(1800))
    run.level = lambda node, index, t: Level(power_watts=100, utilization_ratio=1.0, wobble_watts=1)
    (page,) = opened(run.play(3000))
    assert page.incident.signature == "busy_stall"
    assert 600 <= at(page) - 1800 <= 620


def test_lines_without_steps_are_not_progress():
    run, _ = trained()
    run.level = lambda node, index, t: SPIN
    for t in range(1805, 2400, 5):
        run.say(t, LogEvent(event="error", kind="other", message="keep-alive failed", cascade=True))
    pages = opened(run.play(2400))
    assert [page.incident.family for page in pages] == ["stall"]


def test_the_hang_of_a_run_that_was_cancelled_is_over():
    run, _ = trained()
    run.level = lambda node, index, t: SPIN
    run.play(2100)
    run.say(2105, LogEvent(event="error", kind="slurm_cancelled", message="CANCELLED"))
    run.level = lambda node, index, t: FREE
    assert resolved(run.play(2300), "low_power_deadlock")
    assert not opened(run.transitions, "crash")
