"""Nodes come and go with the attempts; what is known of a node and its strikes outlives that."""

from __future__ import annotations

from dataclasses import replace

from detectors.telemetry import GpuReading
from tests.support.runs import START, ScriptedRun
from watcher.daemon.answer import Answer
from watcher.daemon.fold import RunFold, RunSettings
from watcher.events import LogEvent
from watcher.fleet._api import Job, Place
from watcher.snapshot import LogLine, LogStatus, Snapshot, XidLine


def snapshot(node: str, gpus: int = 8, events: tuple[LogLine | XidLine, ...] = (), errors: int = 0) -> Snapshot:
    readings = tuple(
        GpuReading(
            uuid=f"GPU-{node}-{n}", index=n, minor=gpus - 1 - n, power_watts=300.0, memory_used_bytes=7,
            memory_total_bytes=8, ecc_volatile_uncorrected_count=errors,
        )
        for n in range(gpus)
    )  # fmt: skip
    return Snapshot(node=node, stream="s", sent_at=START, gpus=readings, gpus_age_seconds=0.5, events=events)


def places(*nodes: str, minors: tuple[int, ...] | None = None) -> list[Place]:
    return [Place(node=node, gpu_minors=minors) for node in nodes]


def fold(*nodes: str, minors: tuple[int, ...] | None = None) -> RunFold:
    one = RunFold(RunSettings(name="r", follows=True))
    one.set_nodes(places(*nodes, minors=minors))
    return one


def test_only_the_jobs_own_gpus_are_the_runs():
    one = fold("n1", minors=(0, 1))
    one.observe(Answer("n1", START, snapshot("n1")))
    frame = one.frame(START + 1)
    assert [ref.index for ref in frame.gpus] == [6, 7]  # the devices are numbered the other way round here
    assert (frame.nodes[0].expected_gpus, frame.nodes[0].missing_uuids) == (2, ())


def test_an_xid_of_another_jobs_gpu_is_not_this_runs():
    xids = tuple(XidLine(seq=n, age_seconds=1, code=48, gpu_uuid=f"GPU-n1-{n}") for n in (0, 7))
    one = fold("n1", minors=(0, 1))
    one.observe(Answer("n1", START, snapshot("n1", events=xids)))
    assert [xid.gpu_uuid for xid in one.frame(START + 1).nodes[0].xids] == ["GPU-n1-7"]


def test_where_an_agent_does_not_number_the_devices_all_of_them_count():
    told = snapshot("n1")
    told = told.model_copy(update={"gpus": tuple(replace(gpu, minor=None) for gpu in told.gpus)})
    one = fold("n1", minors=(0, 1))
    one.observe(Answer("n1", START, told))
    assert len(one.frame(START + 1).gpus) == 8


def test_a_node_that_leaves_is_no_longer_of_the_run_and_is_known_when_it_returns():
    one = fold("n1", "n2")
    one.observe(Answer("n2", START, snapshot("n2")))
    one.set_nodes(places("n1", "n3"))
    frame = one.frame(START + 10)
    assert [node.name for node in frame.nodes] == ["n1", "n3"]
    assert frame.gpus == ()
    one.set_nodes(places("n2"))
    one.observe(Answer("n2", START + 20, snapshot("n2", errors=1)))
    assert {(strike.node, strike.kind) for strike in one.ledger.all()} == {("n2", "ecc_uncorrectable")}


def test_working_power_is_learnt_anew_for_other_nodes():
    run = ScriptedRun(nodes=("n1", "n2"))
    run.steps(60, 900, 10, 1)
    run.play(900)
    assert run.fold.frame(START + 901).learnt.power is not None
    run.fold.set_nodes(places("n1", "n9"))
    frame = run.fold.frame(START + 910)
    assert frame.learnt.power is None
    assert {ref.node for ref in frame.gpus} == {"n1"}


def test_lines_that_an_earlier_job_wrote_on_a_node_are_not_this_runs():
    def line(age: float, step: int) -> LogLine:
        event = LogEvent(event="step", step=step)
        return LogLine(seq=step, age_seconds=age, path="/l", file=f"1:{step}", offset=1, event=event)

    one = fold()
    one.set_nodes(places("n1"), since_at=START - 60)
    one.observe(Answer("n1", START, snapshot("n1", events=(line(300, 900), line(20, 5)))))
    assert one.frame(START + 1).progress.last_step == 5


def test_logs_of_other_jobs_that_an_agent_follows_are_not_this_runs():
    def line(path: str, step: int) -> LogLine:
        return LogLine(
            seq=step, age_seconds=1, path=path, file=f"1:{step}", offset=1, event=LogEvent(event="step", step=step)
        )

    def job(number: str) -> Job:
        return Job(id=number, state="running", places=(Place(node="n1"),), log_names={"%j": number})

    one = RunFold(RunSettings(name="r", follows=True, log_paths=("/logs/*-%j-%N.out",)))
    one.set_nodes(places("n1"))
    one.of_job(job("7"))
    lines = (line("/logs/a-8-n2.out", 900), line("/logs/a-7-n1.out", 5), line("/logs/a-9-n1.out", 700))
    told = snapshot("n1", events=lines)
    logs = tuple(
        LogStatus(path=path, lines=1, last_line_age_seconds=1) for path in ("/logs/a-8-n2.out", "/logs/a-7-n1.out")
    )
    one.observe(Answer("n1", START, told.model_copy(update={"logs": logs})))
    frame = one.frame(START + 1)
    assert frame.progress.last_step == 5
    assert [source.path for source in frame.log_sources] == ["/logs/a-7-n1.out"]


def test_strikes_of_a_node_are_seen_after_the_end_until_another_attempt_has_other_nodes():
    one = fold("n1", "n2")
    one.observe(Answer("n2", START, snapshot("n2")))
    one.frame(START)
    one.observe(Answer("n2", START + 10, snapshot("n2", errors=1)))
    one.frame(START + 11)
    one.set_nodes(())
    assert {strike.node for strike in one.frame(START + 20).strikes} == {"n2"}
