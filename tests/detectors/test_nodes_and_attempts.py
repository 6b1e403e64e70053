"""Signatures of nodes, links and attempts over scripted runs: what fires, and the healthy thing next to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from detectors.telemetry import GpuReading, HostReading, SourceHealth
from tests.support.runs import FREE, GIB, IDLE, START, WORK, ScriptedRun, opened, resolved
from watcher.daemon.answer import Answer
from watcher.events import LogEvent
from watcher.snapshot import Snapshot, XidLine


def error(kind: str, **more) -> LogEvent:
    return LogEvent(event="error", kind=kind, message=f"{kind} happened", **more)


BANNER = LogEvent(event="phase", phase="startup", edge="start")


def changing(run: ScriptedRun, change: Callable[[float, str, Snapshot], Snapshot]) -> ScriptedRun:
    """Every snapshot goes through `change(t, node, snapshot)`."""
    observe = run.fold.observe

    def changed(answer: Answer) -> None:
        if answer.snapshot is not None:
            answer = replace(answer, snapshot=change(run.t, answer.node, answer.snapshot))
        observe(answer)

    run.fold.observe = changed  # type: ignore[method-assign]
    return run


def on_gpu(snapshot: Snapshot, index: int, **values) -> Snapshot:
    gpus = tuple(replace(g, **values) if g.index == index else g for g in snapshot.gpus)
    return snapshot.model_copy(update={"gpus": gpus})


def named(run: ScriptedRun) -> dict[str, str]:
    return {t.incident.signature: t.incident.severity.label for t in opened(run.transitions)}


def steps(run: ScriptedRun, until: float) -> None:
    run.steps(60, until, 10, 1)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda t, n, s: s, {}, id="nothing is wrong"),
        pytest.param(
            lambda t, n, s: s.model_copy(update={"sent_at": s.sent_at + 60 * (n == "n2")}),
            {"clock_skew": "warning"},
            id="a clock that is a minute ahead",
        ),
        pytest.param(
            lambda t, n, s: on_gpu(s, 1, remap_pending=True) if n == "n1" else s,
            {"row_remap_pending": "info"},
            id="a remap that waits",
        ),
        pytest.param(
            lambda t, n, s: on_gpu(s, 1, remap_pending=True, remap_failed=True) if n == "n1" else s,
            {"row_remap_failed": "critical"},
            id="a remap that failed is not pending too",
        ),
        pytest.param(
            lambda t, n, s: on_gpu(s, 2, throttle_ratios={"hw_thermal": 0.5, "sw_power_cap": 1.0}),
            {"gpu_throttled": "warning"},
            id="heat",
        ),
        pytest.param(
            lambda t, n, s: on_gpu(s, 2, throttle_ratios={"hw_thermal": 0.01, "sw_power_cap": 1.0}),
            {},
            id="the power cap is normal",
        ),
        pytest.param(
            lambda t, n, s: on_gpu(s, 3, pcie_width=4, pcie_width_max=16), {"link_fault": "warning"}, id="a narrow link"
        ),
        pytest.param(
            lambda t, n, s: on_gpu(s, 3, pcie_width=4, pcie_width_max=16, utilization_ratio=0.0),
            {},
            id="an idle link runs narrow",
        ),
        pytest.param(
            lambda t, n, s: s.model_copy(update={"host": HostReading(links_down=("mlx5_0/1",))}),
            {"link_fault": "warning"},
            id="a port that is down",
        ),
        pytest.param(
            lambda t, n, s: s.model_copy(
                update={"host": HostReading(memory_used_bytes=99 * GIB, memory_total_bytes=100 * GIB)}
            ),
            {"host_memory": "warning"},
            id="memory is full",
        ),
        pytest.param(
            lambda t, n, s: s.model_copy(update={"host": HostReading(disks={"/data": (99, 100), "/": (50, 100)})}),
            {"host_memory": "warning"},
            id="a disk is full",
        ),
        pytest.param(
            lambda t, n, s: s.model_copy(
                update={"health": {"nvml": SourceHealth(ok=False, kind="stuck", error="hangs", age_seconds=50.0)}}
            ),
            {"nvml_unresponsive": "warning"},
            id="the driver hangs",
        ),
        pytest.param(
            lambda t, n, s: s.model_copy(
                update={"health": {"nvml": SourceHealth(ok=False, kind="no_permission", error="refused")}, "gpus": ()}
            ),
            {"monitoring_blind": "warning"},
            id="no right to look",
        ),
    ],
)
def test_states_of_nodes(change, expected):
    run = changing(ScriptedRun(), change)
    steps(run, 600)
    run.play(600)
    assert named(run) == expected


def xid(code: int, gpu: int = 0, node: str = "n1", age: float = 1.0, seq: int = 0) -> XidLine:
    return XidLine(seq=seq, age_seconds=age, code=code, gpu_uuid=f"GPU-{node}-{gpu:04d}")


def test_a_hardware_xid_is_a_strike_and_two_apart_take_the_node_out():
    def change(t: float, name: str, snapshot: Snapshot) -> Snapshot:
        again = name == "n2" and t in (300.0, 900.0)
        return snapshot.model_copy(update={"events": (*snapshot.events, xid(95, 3, "n2"))}) if again else snapshot

    run = changing(ScriptedRun(), change)
    steps(run, 1200)
    run.play(1200)
    (told,) = opened(run.transitions, "repeated_ecc")
    assert told.incident.subject.node == "n2"
    assert "--exclude=n2" in told.incident.summary


def attempts(run: ScriptedRun, *, last_steps: list[int], every: float = 400.0, host: str | None = None) -> float:
    """Attempts that crash one after the other; answers when the last one did."""
    t = 20.0
    for last in last_steps:
        run.say(t, BANNER)
        run.steps(t + 60, t + 200, 20, last - 7)
        run.say(t + 230, error("cuda_error", host=host))
        t += every
    return t


def test_three_crashes_within_minutes_are_a_loop_that_names_the_node_of_all():
    run = ScriptedRun()
    end = attempts(run, last_steps=[50, 50, 50], host="n2")
    run.say(end, BANNER)
    run.play(end + 120)
    (told,) = opened(run.transitions, "crash_loop")
    assert told.incident.severity.label == "critical"
    run.steps(end + 130, end + 1100, 10, 60)
    run.play(end + 1100)
    assert resolved(run.transitions, "crash_loop")


def test_two_crashes_are_no_loop():
    run = ScriptedRun()
    end = attempts(run, last_steps=[50, 50])
    run.say(end, BANNER)
    run.play(end + 120)
    assert not opened(run.transitions, "crash_loop")


@pytest.mark.parametrize(
    ("how", "pages"),
    [
        pytest.param(error("slurm_time_limit"), True, id="a time limit, and nobody starts it again"),
        pytest.param(error("slurm_cancelled"), True, id="cancelled, and nobody starts it again"),
        pytest.param(LogEvent(event="phase", phase="finished", edge="start"), False, id="finished"),
    ],
)
def test_a_run_that_ended_and_does_not_come_back(how, pages):
    run = ScriptedRun()
    steps(run, 600)
    run.say(610, how)
    run.level = lambda node, index, t: WORK if t <= 610 else FREE
    run.play(1400)
    assert not opened(run.transitions, "not_restarted")
    run.play(1800)
    assert bool(opened(run.transitions, "not_restarted")) == pages
    assert not opened(run.transitions, "crash")


def test_held_gpus_that_do_nothing_while_the_run_goes_on():
    run = ScriptedRun()
    steps(run, 2400)
    run.level = lambda node, index, t: IDLE if (node, index) == ("n2", 7) else WORK
    run.play(2400)
    (told,) = opened(run.transitions, "gpu_idle")
    assert "n2 gpu 7" in told.incident.summary


def test_a_start_that_was_expected_and_did_not_come():
    run = ScriptedRun(settings={"expected_start_at": START + 100})
    run.level = lambda node, index, t: FREE
    run.play(900)
    assert not opened(run.transitions)
    run.play(1200)
    assert named(run) == {"not_started": "warning"}


def test_mig_is_said_and_not_judged():
    run = changing(ScriptedRun(), lambda t, n, s: s.model_copy(update={"gpus": tuple(map(split, s.gpus))}))
    steps(run, 600)
    run.play(600)
    assert named(run) == {"monitoring_blind": "warning"}


def split(gpu: GpuReading) -> GpuReading:
    return replace(gpu, mig=True, power_watts=None, utilization_ratio=None)
