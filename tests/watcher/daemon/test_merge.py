"""One view of a node from several sources: GPUs whole from one, silence of a part named and hiding nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from detectors.registry import load_plugins
from detectors.telemetry import GpuReading, SourceHealth
from tests.support.runs import SPIN, START, WORK, ScriptedRun, opened
from watcher.daemon.answer import Answer
from watcher.daemon.merge import merge
from watcher.events import LogEvent
from watcher.snapshot import Snapshot, XidLine

WELL = {"nvml": SourceHealth(ok=True), "kernel_log": SourceHealth(ok=True)}
NO_GPUS = {"nvml": SourceHealth(ok=False, kind="no_library", error="no libnvidia-ml.so.1")}


def gpu(watts: float) -> GpuReading:
    return GpuReading(uuid="GPU-1", index=0, power_watts=watts)


def xid(code: int) -> XidLine:
    return XidLine(seq=1, age_seconds=0.0, code=code, gpu_uuid="GPU-1")


def snapshot(watts: float | None, health: Any = WELL, **more: Any) -> Snapshot:
    gpus = () if watts is None else (gpu(watts),)
    return Snapshot(node="n1", stream="s", sent_at=START, gpus=gpus, gpus_age_seconds=0.0, health=health, **more)


def agent(snapshot: Snapshot | None = None, error: str | None = None) -> Answer:
    return Answer("n1", START, snapshot, error)


def telemetry(snapshot: Snapshot | None = None, error: str | None = None) -> Answer:
    return Answer("n1", START + 1, snapshot, error, part="gpus")


def one(*answers: Answer) -> Answer:
    merged = merge([[answer] for answer in answers])
    assert list(merged) == ["n1"]
    assert merged["n1"].part == "agent"
    return merged["n1"]


def seen(answer: Answer) -> Snapshot:
    assert answer.snapshot is not None, answer.error
    return answer.snapshot


def watts(answer: Answer) -> list[float | None]:
    return [gpu.power_watts for gpu in seen(answer).gpus]


def test_what_only_one_source_knows_is_passed_on():
    assert watts(one(agent(snapshot(1.0)))) == [1.0]
    assert watts(one(telemetry(snapshot(2.0)))) == [2.0]
    assert one(telemetry(error="refused")).error == "refused"


def test_gpus_come_whole_from_the_agent_where_it_reads_them():
    merged = seen(one(agent(snapshot(1.0)), telemetry(snapshot(2.0, events=(xid(79),)))))
    assert [g.power_watts for g in merged.gpus] == [1.0]
    assert merged.events == ()


def test_an_agent_without_a_driver_is_completed_by_telemetry():
    merged = seen(
        one(agent(snapshot(None, NO_GPUS)), telemetry(snapshot(2.0, events=(xid(79),), interval_seconds=30.0)))
    )
    assert [g.power_watts for g in merged.gpus] == [2.0]
    assert merged.health["nvml"].ok
    assert merged.interval_seconds == 30.0
    assert [event.code for event in merged.events if isinstance(event, XidLine)] == [79]


def test_xids_are_told_once_by_the_kernel_log_where_it_is_read():
    health = {**NO_GPUS, "kernel_log": SourceHealth(ok=True)}
    merged = one(agent(snapshot(None, health, events=(xid(31),))), telemetry(snapshot(2.0, events=(xid(31),))))
    assert len(seen(merged).events) == 1


def test_a_driver_that_hangs_is_the_agents_to_tell():
    stuck = {"nvml": SourceHealth(ok=False, kind="stuck", error="no answer for 50 s")}
    merged = seen(one(agent(snapshot(None, stuck)), telemetry(snapshot(2.0))))
    assert merged.gpus == ()
    assert merged.health["nvml"].kind == "stuck"


def test_a_silent_agent_hides_no_gpus_and_is_named():
    merged = seen(one(agent(error="refused"), telemetry(snapshot(2.0))))
    assert [g.power_watts for g in merged.gpus] == [2.0]
    assert merged.health["agent"].error == "refused"


def test_silent_telemetry_hides_no_agent_and_is_named():
    beside = seen(one(agent(snapshot(1.0)), telemetry(error="HTTP 500")))
    assert beside.health["nvml"].ok
    assert beside.health["telemetry"].error == "HTTP 500"
    alone = seen(one(agent(snapshot(None, NO_GPUS)), telemetry(error="HTTP 500")))
    assert alone.health["nvml"].error == "HTTP 500"


def test_only_when_all_are_silent_the_node_is():
    assert one(agent(error="refused"), telemetry(error="HTTP 500")).error == "refused; HTTP 500"


def test_of_two_that_tell_of_the_same_part_the_one_that_answers_counts():
    assert watts(one(agent(error="refused"), agent(snapshot(3.0)))) == [3.0]
    assert watts(one(agent(snapshot(3.0)), agent(error="refused"))) == [3.0]
    assert watts(one(telemetry(snapshot(None)), telemetry(snapshot(4.0)))) == [4.0]


class HalfSilent(ScriptedRun):
    """From second 900 on the agents are silent and an exporter tells of the GPUs."""

    def answer(self, node: str, said: list[tuple[float, LogEvent]]) -> Answer:
        whole = super().answer(node, said)
        assert whole.snapshot is not None
        logs = tuple(log.model_copy(update={"steps": 84}) for log in whole.snapshot.logs)
        return replace(whole, snapshot=whole.snapshot.model_copy(update={"logs": logs}))

    def poll(self) -> None:
        if self.t <= 900:
            super().poll()
            return
        for node in self.nodes:
            full = super().answer(node, [])
            assert full.snapshot is not None
            told = replace(full, snapshot=full.snapshot.model_copy(update={"logs": ()}), part="gpus")
            self.fold.observe(merge([[Answer(node, full.received_at, None, "refused")], [told]])[node])


def test_an_agent_that_died_is_told_as_such_and_not_as_a_stall_of_its_run():
    run = HalfSilent(nodes=("n1",))
    run.steps(60, 900, 10, 1)
    run.level = lambda node, index, t: WORK
    run.play(2400)
    assert {t.incident.signature for t in opened(run.transitions)} == {"monitoring_blind"}
    (told,) = opened(run.transitions)
    assert "the agent does not answer" in told.incident.summary
    assert told.at < 960 + START


def test_a_hang_behind_a_dead_agent_is_at_least_told_as_one_that_may_be():
    run = HalfSilent(nodes=("n1",))
    run.steps(60, 900, 10, 1)
    run.level = lambda node, index, t: WORK if t < 1000 else SPIN
    run.play(2400)
    assert any("it may hang" in t.incident.summary for t in run.transitions)
    assert "low_power_deadlock" in load_plugins()
    assert not opened(run.transitions, "low_power_deadlock")
