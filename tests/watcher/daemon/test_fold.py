"""The fold of one run: what survives a restart of the daemon, what is told twice, what is learnt, who is struck."""

from __future__ import annotations

from dataclasses import replace

import pytest

from detectors.telemetry import GpuReading
from tests.support.runs import IDLE, SPIN, START, WORK, ScriptedRun, opened
from watcher.daemon.answer import Answer
from watcher.daemon.fold import RunFold, RunSettings
from watcher.daemon.ledger import Ledger
from watcher.events import LogEvent
from watcher.snapshot import LogLine, Snapshot, XidLine


def answer(node: str, at: float, *events: LogLine, **gpu) -> Answer:
    gpus = (GpuReading(uuid=f"GPU-{node}-0", index=0, **gpu),) if gpu else ()
    snapshot = Snapshot(node=node, stream="s", sent_at=at, gpus=gpus, gpus_age_seconds=0.0, events=events)
    return Answer(node, at, snapshot)


def line(step: int, offset: int, age: float = 0.0) -> LogLine:
    return LogLine(
        seq=offset, age_seconds=age, path="/log", file="1:1", offset=offset, event=LogEvent(event="step", step=step)
    )


def fold(*nodes: str, **settings) -> RunFold:
    return RunFold(RunSettings(name="train", nodes=nodes, **settings))


def test_a_line_that_two_agents_tell_counts_once():
    run = fold("a", "b")
    run.observe(answer("a", START, line(1, 10), line(2, 20)))
    run.observe(answer("b", START + 1, line(1, 10), line(2, 20), line(3, 30)))
    progress = run.frame(START + 2).progress
    assert [r.step for r in progress.records] == [1, 2, 3]


def test_ages_are_taken_from_the_time_of_the_answer_whatever_the_nodes_clock_says():
    run = fold("a")
    run.observe(Answer("a", START, replace_sent(answer("a", START, line(1, 10, age=30.0)).snapshot, START - 9_999)))
    frame = run.frame(START)
    assert frame.progress.last_step_at == START - 30
    assert frame.nodes[0].skew_seconds == -9_999


def replace_sent(snapshot: Snapshot, at: float) -> Snapshot:
    return snapshot.model_copy(update={"sent_at": at})


def test_old_readings_are_not_live():
    run = fold("a")
    run.observe(answer("a", START, power_watts=100.0))
    assert run.frame(START + 10).nodes[0].gpus_fresh
    stale = run.frame(START + 40).nodes[0]
    assert not stale.gpus_fresh
    assert stale.gpus == ()
    assert stale.missing_uuids == ()


def test_a_gpu_that_was_there_and_is_not_in_fresh_readings_is_missing_even_after_a_restart():
    run = fold("a")
    both = Snapshot(
        node="a",
        stream="s",
        sent_at=START,
        gpus=(GpuReading(uuid="x", index=0), GpuReading(uuid="y", index=1)),
        gpus_age_seconds=0.0,
    )
    run.observe(Answer("a", START, both))
    again = fold("a")
    again.load(run.dump())
    again.observe(Answer("a", START + 10, both.model_copy(update={"gpus": both.gpus[:1]})))
    assert again.frame(START + 10).nodes[0].missing_uuids == ("y",)


def test_the_saved_state_brings_back_attempt_step_gaps_and_what_was_read():
    run = ScriptedRun()
    run.steps(60, 1200, 10, 1, total_steps=5000)
    run.play(1200)
    again = RunFold(run.fold.settings)
    again.load(run.fold.dump())
    assert again.dump() == run.fold.dump()
    before, after = run.fold.frame(START + 1210), again.frame(START + 1210)
    assert after.progress.last_step == before.progress.last_step == 115
    assert after.progress.total_steps == 5000
    assert after.learnt.gaps["training"].longest_seconds == before.learnt.gaps["training"].longest_seconds
    assert after.attempt.started_at == before.attempt.started_at
    assert after.learnt.power is not None


@pytest.mark.parametrize("broken", [b"", b"{}", b"[]", b'{"attempt": 3}', b"\xff"])
def test_a_saved_state_that_cannot_be_read_is_one_clear_error_and_changes_nothing(broken):
    run = fold("a")
    with pytest.raises(ValueError, match="run train"):
        run.load(broken)
    assert run.frame(START).attempt.number == 1


def test_working_power_is_learnt_while_steps_advance_and_not_from_the_hang():
    run = ScriptedRun()
    run.steps(60, 1200, 10, 1)
    run.level = lambda node, index, t: WORK if t <= 1200 else SPIN
    run.play(2400)
    band = run.pipeline.frames["train"].learnt.power
    assert 600 < band.run_median_watts < 700


def test_processes_that_come_back_are_a_new_attempt_without_any_banner():
    run = ScriptedRun(nodes=("n1",))
    run.steps(60, 600, 10, 1)
    free = replace(IDLE, memory_gib=0.0)
    run.level = lambda node, index, t: free if 600 < t < 700 else WORK
    run.play(800)
    assert run.pipeline.frames["train"].attempt.number == 2


def test_ecc_counts_strike_once_per_event_and_old_counts_never():
    run = fold("a")
    for at, count in ((0, 7), (10, 7), (20, 8), (30, 9), (400, 10)):
        run.observe(answer("a", START + at, ecc_volatile_uncorrected_count=count))
    assert [round(s.at - START) for s in run.frame(START + 400).strikes] == [20, 400]


def test_a_remap_that_fails_is_a_strike_and_one_that_had_failed_before_is_none():
    run = fold("a", "b")
    for at, failed in ((0, False), (10, True), (20, True)):
        run.observe(answer("a", START + at, remap_failed=failed))
        run.observe(answer("b", START + at, remap_failed=True))
    assert [(s.node, s.kind) for s in run.frame(START + 20).strikes] == [("a", "remap_failed")]


@pytest.mark.parametrize("ended", [True, False])
def test_a_contained_error_counts_only_where_it_ended_the_run(ended):
    run = fold("a")
    run.observe_event(START, LogEvent(event="step", step=1))
    xid = XidLine(seq=1, age_seconds=0.0, code=94, gpu_uuid="GPU-a-0", message="contained")
    run.observe(Answer("a", START + 10, Snapshot(node="a", stream="s", sent_at=START + 10, events=(xid,))))
    run.observe_event(START + 12, LogEvent(event="error", kind="cuda_error", message="uncorrectable"))
    if not ended:
        run.observe_event(START + 20, LogEvent(event="step", step=2))
    run.frame(START + 30)
    assert [s.kind for s in run.ledger.all()] == (["xid_94"] if ended else [])


def test_an_ecc_text_and_a_later_crash_on_the_same_node_are_two_strikes():
    ledger = Ledger()
    run = RunFold(RunSettings(name="train", nodes=("a", "b"), logs_are_per_node=True), ledger)
    run.observe_event(START, LogEvent(event="step", step=1), "a")
    run.observe_event(START + 10, LogEvent(event="error", kind="ecc", message="uncorrectable ECC error"), "b")
    run.observe_event(START + 400, LogEvent(event="phase", phase="startup", edge="start"), "a")
    run.observe_event(START + 500, LogEvent(event="error", kind="oom_gpu", message="out of memory"), "b")
    run.frame(START + 510)
    assert [(s.node, s.kind) for s in ledger.all()] == [("b", "ecc_text"), ("b", "crash_start")]


def test_a_crash_on_a_node_without_a_hardware_strike_is_no_strike():
    run = RunFold(RunSettings(name="train", nodes=("a",), logs_are_per_node=True))
    run.observe_event(START, LogEvent(event="step", step=1), "a")
    run.observe_event(START + 10, LogEvent(event="error", kind="oom_gpu", message="out of memory"), "a")
    assert run.frame(START + 20).strikes == ()


def test_one_lost_gpu_is_one_incident_with_its_name():
    run = ScriptedRun()
    run.steps(60, 900, 10, 1)
    lost = replace(WORK, state="lost", power_watts=None, utilization_ratio=None, memory_gib=None, error="GPU is lost")
    run.level = lambda node, index, t: lost if (node, index) == ("n2", 3) and t > 600 else WORK
    pages = opened(run.play(900))
    assert [p.incident.key for p in pages] == ["n2/gpu_lost/GPU-n2-0003"]
    assert "GPU 3 of n2" in pages[0].incident.summary
