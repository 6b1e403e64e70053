"""Signatures that look at half an hour of readings: the GPU that is slow, and steps that nobody can read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from detectors.frame import LogSource, Pace, Phase
from detectors.registry import load_plugins
from detectors.telemetry import HostReading
from detectors.verdict import Clear, Finding, Firing, Unknown
from tests.support.frames import NOW, frame, history, node

PLUGINS = load_plugins()
NAN = float("nan")


def judge(name: str, seen, **settings):
    plugin = PLUGINS[name]
    return plugin.build(plugin.config(**settings)).check(seen)


def found(name: str, seen) -> list[Finding]:
    verdict = judge(name, seen)
    return list(verdict.findings) if isinstance(verdict, Firing) else []


def clocks(*mhz, count: int | None = None, **more) -> list[str]:
    seen = frame(history=history(count or len(mhz), sm_clock_mhz=list(mhz), **more))
    return [f"{f.subject.gpu_index}" for f in found("slow_gpu", seen)]


@pytest.mark.parametrize(
    ("mhz", "named"),
    [
        pytest.param([1700] * 7 + [1400], ["7"], id="one at a lower clock is named"),
        pytest.param([1700] * 8, [], id="all alike"),
        pytest.param([1700] * 7 + [1660], [], id="two percent are within the spread of cards"),
        pytest.param([1700] * 5 + [1400] * 3, [], id="three of eight are no odd ones out"),
        pytest.param([1700] * 7 + [1980], [], id="a faster one holds nobody up"),
        pytest.param([1700] * 7 + [NAN], [], id="one that is not known is not called slow"),
        pytest.param([1700, 1400], [], id="two cannot tell who is the odd one"),
    ],
)
def test_slow_gpu(mhz, named):
    assert clocks(*mhz) == named


def jumping(level: float) -> np.ndarray:
    """A clock under a power cap: it jumps by a tenth from reading to reading."""
    return level * (1 + 0.05 * np.sin(np.arange(181) * 2.4))


def test_clocks_that_jump_under_a_power_cap_do_not_hide_the_slow_one():
    shifted = [np.roll(jumping(1290), 7 * i) for i in range(7)]
    assert clocks(*np.stack([*shifted, jumping(1155)], axis=1), count=8) == ["7"]
    assert clocks(*np.stack([*shifted, np.roll(jumping(1280), 3)], axis=1), count=8) == []


def test_idle_gpus_clock_down_and_are_not_slow():
    busy = [1.0] * 7 + [0.0]
    assert clocks(*[1700] * 7, 345, utilization_ratio=busy) == []


def test_a_slow_gpu_is_judged_only_while_the_run_trains_and_for_ten_minutes():
    mhz = [1700] * 7 + [1400]
    saving = Phase(name="checkpoint", since_at=NOW - 30)
    assert isinstance(judge("slow_gpu", frame(history=history(8, sm_clock_mhz=mhz), phase=saving)), Unknown)
    assert isinstance(judge("slow_gpu", frame(history=history(8, 300, sm_clock_mhz=mhz))), Unknown)


def dropped(minutes_ago: int = 12, **columns):
    """Six percent slower since then; `columns`: what GPU 5 of eight shows since then."""
    seconds = [10.0] * 60 + [10.6] * minutes_ago
    at = tuple(NOW - 60.0 * (len(seconds) - 1 - i) for i in range(len(seconds)))
    pace = Pace(at=at, step_seconds=tuple(seconds), records=(6,) * len(seconds), world=((1, 8, 64),) * len(seconds))
    before = {"sm_clock_mhz": 1700.0, "power_watts": 600.0, "temperature_celsius": 60.0, "utilization_ratio": 1.0}
    shown = {}
    for name, level in before.items():
        shown[name] = np.full((181, 8), level) * (1 + 0.01 * np.sin(np.arange(181 * 8).reshape(181, 8)))
        if name in columns:
            shown[name][-6 * minutes_ago :, 5] = columns[name]
    return frame(progress={"pace": pace}, history=history(8, **shown))


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        pytest.param({"sm_clock_mhz": 1500.0}, "n1 gpu 5 (clock -20", id="its clock fell"),
        pytest.param({"temperature_celsius": 80.0}, "n1 gpu 5 (temperature +20", id="it became hot"),
        pytest.param({"power_watts": 450.0}, "n1 gpu 5 (power -15", id="it draws less"),
        pytest.param({"sm_clock_mhz": NAN, "power_watts": 450.0}, "n1 gpu 5 (power -15", id="its clock is not known"),
        pytest.param({}, "no GPU or link stands out", id="none changed: honestly no one"),
        pytest.param({"temperature_celsius": 62.0}, "no GPU or link stands out", id="two degrees are nothing"),
    ],
)
def test_a_drop_names_the_gpu_that_changed_with_the_pace(columns, told):
    (one,) = found("throughput_drop", dropped(**columns))
    assert told in one.summary


def test_a_gpu_that_was_always_different_is_not_named_for_a_drop():
    seen = dropped()
    seen.history.temperature_celsius.setflags(write=True)
    seen.history.temperature_celsius[:, 5] = 85.0
    (one,) = found("throughput_drop", seen)
    assert "no GPU or link stands out" in one.summary


def test_a_drop_names_the_links_that_are_not_sound():
    bad = node("n2", host=HostReading(links_down=("mlx5_1/1",)))
    seen = dropped()
    (one,) = found("throughput_drop", replace(seen, nodes=(node("n1"), bad)))
    assert "n2: mlx5_1/1 is down" in one.summary


def unread(**more):
    progress = {
        "source": False, "last_step": None, "first_step_at": None, "last_step_at": None, "last_progress_at": None,
        "last_line_at": NOW - 20,
    }  # fmt: skip
    logs = (LogSource(path="/log", lines=4000, last_line_at=NOW - 20),)
    attempt = {"started_at": NOW - 4000} | more.pop("attempt", {})
    return frame(progress=progress | more.pop("progress", {}), attempt=attempt, log_sources=logs, **more)


def test_lines_without_a_step_while_gpus_work_are_told_as_blindness():
    (one,) = found("monitoring_blind", unread(history=history(8)))
    assert one.severity.label == "warning"
    assert "none was read as a step" in one.summary


def test_a_spin_without_any_step_is_told_as_a_doubt_and_never_as_a_page():
    (one,) = found("monitoring_blind", unread(history=history(8, power_watts=150.0)))
    assert one.severity.label == "warning"
    assert "it may hang" in one.summary


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(
            unread(history=history(8), attempt={"started_at": NOW - 1000}), id="a start may take half an hour"
        ),
        pytest.param(unread(history=history(8, utilization_ratio=0.0)), id="idle GPUs may wait for their data"),
        pytest.param(
            unread(history=history(8), progress={"last_line_at": NOW - 3000}), id="no lines: a start that hangs"
        ),
        pytest.param(unread(history=history(8), attempt={"stopped": "cancelled"}), id="it was cancelled"),
        pytest.param(frame(history=history(8)), id="steps are read"),
    ],
)
def test_where_nothing_is_hidden_it_is_quiet(seen):
    assert isinstance(judge("monitoring_blind", seen), Clear)


@pytest.mark.parametrize(
    ("used", "held", "count"),
    [
        pytest.param([1.0] * 6 + [0.0] * 2, 0.9, 2, id="two held and idle"),
        pytest.param([1.0] * 6 + [0.0] * 2, 0.0, 0, id="free ones are not this run's"),
        pytest.param([0.0] * 8, 0.9, 0, id="all idle is a stall's matter"),
        pytest.param([1.0] * 6 + [NAN] * 2, 0.9, 0, id="unknown is not idle"),
        pytest.param([1.0] * 8, 0.9, 0, id="all work"),
    ],
)
def test_gpu_idle(used, held, count):
    told = found("gpu_idle", frame(history=history(8, utilization_ratio=used, memory_used_ratio=held)))
    assert [f.evidence["gpus_idle"] for f in told] == ([count] if count else [])


def test_idle_for_twenty_minutes_is_not_yet_known():
    seen = frame(history=history(8, 1200, utilization_ratio=[1.0] * 6 + [0.0] * 2))
    assert isinstance(judge("gpu_idle", seen), Unknown)


def climbing(ratios: list[float]) -> list[str]:
    points = tuple((NOW - 60.0 * (len(ratios) - 1 - i), ratio) for i, ratio in enumerate(ratios))
    seen = frame(node("n1", host=HostReading(), memory_ratios=points), node("n2", host=HostReading()))
    return [f.summary for f in found("host_memory", seen)]


@pytest.mark.parametrize(
    ("ratios", "fires"),
    [
        pytest.param([0.6 + 0.005 * i for i in range(40)], True, id="a leak that fills the node within two hours"),
        pytest.param([0.6 + 0.0005 * i for i in range(40)], False, id="one that takes a day"),
        pytest.param([0.1 + 0.01 * i for i in range(31)], False, id="data that is still being loaded"),
        pytest.param([0.3] * 20 + [0.8] * 20, False, id="a step upwards that stays"),
        pytest.param([0.8] * 40, False, id="much and even"),
        pytest.param([0.6 + 0.01 * i for i in range(15)], False, id="a quarter of an hour is too short"),
    ],
)
def test_memory_that_climbs(ratios, fires):
    assert bool(climbing(ratios)) is fires


@pytest.mark.parametrize(
    ("rates", "told"),
    [
        pytest.param((9.0, 0.0), "PCIe of gpu 0 repeats 9 packets a minute", id="PCIe repeats"),
        pytest.param((0.0, 300.0), "NVLinks of gpu 0 count 300 errors a minute", id="NVLink errors"),
        pytest.param((2.0, 5.0), "", id="a few are no fault"),
    ],
)
def test_links_that_count_errors(rates, told):
    seen = frame(node("n1", host=HostReading(), link_error_rates={"GPU-n1-0": rates}), node("n2"))
    assert "".join(f.summary for f in found("link_fault", seen)).endswith(told)


def test_a_port_that_went_down_twice_within_half_an_hour_flaps():
    seen = [node("n1", host=HostReading(), flaps_at={"mlx5_0/1": (NOW - ago, NOW - 60)}) for ago in (600, 7200)]
    assert [bool(found("link_fault", frame(one, node("n2")))) for one in seen] == [True, False]
