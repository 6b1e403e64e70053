"""What a real Slurm says of real jobs, asked in both ways: arrays, requeues, drained and lost nodes, ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from tests.support import slurm_cluster
from tests.support.slurm_cluster import SlurmCluster
from watcher.clock import SystemClock
from watcher.fleet._api import FleetError, Job
from watcher.fleet._group import Sight, sight_of
from watcher.fleet._log_paths import paths_of
from watcher.fleet.slurm import SlurmMatch, SlurmSettings, SlurmSource


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    if reason := slurm_cluster.missing():
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)
    with SlurmCluster(tmp_path_factory.mktemp("slurm"), count=4, slurmd_timeout_seconds=4) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _clean(slurm: SlurmCluster) -> Iterator[None]:
    yield
    slurm.run("scancel", "--user=root")
    slurm.until(lambda: not slurm.run("squeue", "--noheader", "--states=running,completing"), "all jobs are gone")


class Asked:
    """The same question through JSON and through scontrol; both must tell the same."""

    def __init__(self, slurm: SlurmCluster, name: str) -> None:
        settings = SlurmSettings(slurm_conf=slurm.conf, accounting=False)
        self.slurm = slurm
        self._json, self._rows = (SlurmSource(settings, [SlurmMatch(job_name=name)], SystemClock()) for _ in range(2))
        self._rows._speaks_json = False

    @property
    def jobs(self) -> list[Job]:
        async def ask() -> tuple[list[Job], list[Job]]:
            return list(await self._json.jobs()), list(await self._rows.jobs())

        def told_alike() -> list[Job] | None:
            """A state may change between the two questions: then they are asked again."""
            told, also = asyncio.run(ask())
            return told if _facts(told) == _facts(also) else None

        return self.slurm.until(told_alike, "both ways tell the same", 10)  # type: ignore[no-any-return]

    @property
    def sight(self) -> Sight:
        return sight_of("run", "slurm", self.jobs)


def _facts(jobs: list[Job]) -> list[object]:
    return sorted((j.id, j.state, j.restarts, j.places, j.started_at, j.ended_at, j.held) for j in jobs)


def nodes(sight: Sight) -> list[str]:
    return [place.node for place in sight.places]


def test_tasks_of_an_array_are_attempts_of_one_run_with_their_nodes_and_gpus(slurm):
    array = slurm.submit("sleep 60", "--job-name=arr", "--array=1-3%1", "--nodes=2", "--gpus-per-node=4")
    slurm.wait(f"{array}_1", "RUNNING")
    seen = Asked(slurm, "arr").sight
    assert seen.scheduler is not None
    assert (seen.scheduler.job_id, seen.scheduler.successor_waits) == (f"{array}_1", True)
    assert [(p.node, p.gpu_minors) for p in seen.places] == [("gpu01", (0, 1, 2, 3)), ("gpu02", (0, 1, 2, 3))]
    slurm.run("scancel", f"{array}_1")
    slurm.wait(f"{array}_2", "RUNNING")
    seen = Asked(slurm, "arr").sight
    assert seen.scheduler is not None
    assert seen.scheduler.job_id == f"{array}_2"
    assert [(e.job_id, e.state) for e in seen.ended] == [(f"{array}_1", "cancelled")]


def test_a_requeue_is_the_same_job_with_one_more_restart(slurm):
    job = slurm.submit("sleep 60", "--job-name=req", "--nodes=1")
    slurm.wait(job, "RUNNING")
    asked = Asked(slurm, "req")
    first = asked.sight.scheduler
    slurm.run("scontrol", "requeue", job)
    slurm.wait(job, "PENDING")
    waits = asked.sight
    assert waits.scheduler is not None
    assert (waits.scheduler.state, waits.scheduler.restarts, waits.places) == ("pending", 1, ())
    slurm.run("scontrol", "update", f"jobid={job}", "starttime=now")
    slurm.wait(job, "RUNNING")
    again = asked.sight.scheduler
    assert first is not None
    assert again is not None
    assert (again.job_id, first.restarts, again.restarts) == (first.job_id, 0, 1)
    assert again.started_at >= first.started_at  # type: ignore[operator]


def test_how_a_job_ended_is_told_with_its_exit_code(slurm):
    job = slurm.submit("exit 3", "--job-name=bad")
    slurm.wait(job, "FAILED")
    seen = Asked(slurm, "bad").sight
    assert seen.scheduler is not None
    assert seen.scheduler.over
    assert "exit code 3:0" in seen.ended[0].text


def test_what_is_held_or_can_never_start_is_no_successor(slurm):
    first = slurm.submit("sleep 2; exit 1", "--job-name=dep")
    slurm.submit("true", "--job-name=dep", f"--dependency=afterok:{first}")
    slurm.submit("true", "--job-name=dep", "--hold")
    asked = Asked(slurm, "dep")
    assert asked.sight.scheduler.successor_waits  # type: ignore[union-attr]
    slurm.wait(first, "FAILED")
    slurm.until(lambda: asked.sight.scheduler.held, "nothing will start by itself")  # type: ignore[union-attr]
    assert not asked.sight.scheduler.successor_waits  # type: ignore[union-attr]


def test_a_drained_node_keeps_its_job_and_gets_no_new_one(slurm):
    job = slurm.submit("sleep 60", "--job-name=drain", "--nodes=1", "--nodelist=gpu01")
    slurm.wait(job, "RUNNING")
    slurm.run("scontrol", "update", "nodename=gpu01", "state=drain", "reason=struck twice")
    try:
        asked = Asked(slurm, "drain")
        assert nodes(asked.sight) == ["gpu01"]
        slurm.run("scancel", job)
        again = slurm.submit("sleep 60", "--job-name=drain", "--nodes=1")
        slurm.wait(again, "RUNNING")
        assert nodes(asked.sight) == ["gpu02"]
    finally:
        slurm.run("scontrol", "update", "nodename=gpu01", "state=resume")


def test_the_log_that_slurm_reports_is_the_one_that_the_job_writes(slurm):
    job = slurm.submit("echo here; sleep 60", "--job-name=out", f"--output={slurm.folder}/%x-%4j-%N.txt", "--nodes=1")
    slurm.wait(job, "RUNNING")
    (told,) = Asked(slurm, "out").jobs
    (path,) = paths_of("%stdout", told)
    slurm.until(lambda: os.path.exists(path), path)
    assert path.endswith(f"out-{int(job):04d}-{told.places[0].node}.txt")


def test_a_controller_that_does_not_answer_is_never_no_jobs(slurm):
    other = slurm.folder / "other.conf"
    text = slurm.conf.read_text()
    port = next(line for line in text.splitlines() if line.startswith("SlurmctldPort="))
    other.write_text(text.replace(port, "SlurmctldPort=1"))
    settings = SlurmSettings(slurm_conf=other, timeout_seconds=2)
    with pytest.raises(FleetError, match="squeue"):
        asyncio.run(SlurmSource(settings, [SlurmMatch(user="root")], SystemClock()).jobs())


def test_a_node_that_fails_ends_its_job_or_gives_it_back(slurm):
    gone = slurm.submit("sleep 90", "--job-name=lost", "--nodes=1", "--nodelist=gpu04", "--no-requeue", "--exclusive")
    slurm.wait(gone, "RUNNING")
    slurm.kill_node("gpu04")
    slurm.run("scontrol", "update", "nodename=gpu04", "state=down", "reason=no answer")  # Slurm alone takes minutes
    slurm.wait(gone, "NODE_FAIL")
    seen = Asked(slurm, "lost").sight
    assert [(e.job_id, e.state) for e in seen.ended] == [(gone, "node_fail")]
