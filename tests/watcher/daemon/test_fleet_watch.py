"""Found runs appear while the daemon runs, stay for a day, outlive restarts; a silent source ends nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.runs import START
from watcher.clock import FakeClock
from watcher.config.daemon import DaemonConfig
from watcher.daemon.app import Daemon
from watcher.daemon.build import Keeper, build
from watcher.daemon.fleet import Feed
from watcher.daemon.store import Store
from watcher.fleet._api import FleetError, Job, Place
from watcher.fleet._group import Rule

DAY = 86_400.0


class Source:
    """Stands where the scheduler is asked."""

    def __init__(self) -> None:
        self.told: Sequence[Job] | Exception = ()
        self.asked = 0

    async def jobs(self) -> Sequence[Job]:
        self.asked += 1
        if isinstance(self.told, Exception):
            raise self.told
        return self.told

    async def aclose(self) -> None:
        pass


class Site:
    def __init__(self, folder: Path, clock: FakeClock, source: Source, **run: Any) -> None:
        self.clock, self.source = clock, source
        self.store = Store(folder / "x.db")
        config = {
            "daemon": {"database": str(folder / "x.db"), "agents": {"ask": False}},
            "runs": [{"name": "{job_name}", "match": {"slurm_job_name": "tr*"}, **run}, {"name": "own", "nodes": "n9"}],
        }
        built: tuple[Daemon, Keeper] = build(DaemonConfig.model_validate(config), clock, self.store)
        self.daemon, self.keeper = built
        assert self.daemon.fleet is not None
        self.fleet = self.daemon.fleet
        self.fleet.feeds[0].source = source

    def cycles(self, count: int, seconds: float = 10.0) -> None:
        async def play() -> None:
            for _ in range(count):
                self.clock.advance(seconds)
                await self.daemon.tick()
                await asyncio.sleep(0)
            assert self.daemon.health.error is None, self.daemon.health.error

        asyncio.run(play())

    @property
    def names(self) -> list[str]:
        return sorted(run.fold.settings.name for run in self.daemon.runs)

    def close(self) -> None:
        self.keeper(self.daemon.runs, force=True)
        self.store.close()


def job(number: str, state: Any = "running", *nodes: str, name: str = "tr11", **more: Any) -> Job:
    labels = {"job_name": name, "job_id": number}
    return Job(
        id=number, name=name, state=state, labels=labels, places=tuple(Place(node=node) for node in nodes), **more
    )


@pytest.fixture
def site(tmp_path):
    one = Site(tmp_path, FakeClock(START), Source())
    yield one
    one.store.close()


def test_a_run_appears_when_its_job_does_and_its_nodes_are_watched(site):
    site.cycles(3)
    assert site.names == ["own"]
    site.source.told = [job("7", "running", "n1", "n2", started_at=START)]
    site.cycles(8)
    assert site.names == ["own", "tr11"]
    assert list(site.daemon.frames["tr11"].nodes) != []
    assert site.daemon.frames["tr11"].scheduler.job_id == "7"


def test_the_scheduler_is_asked_once_a_minute(site):
    site.cycles(61)
    assert site.source.asked == 11


def test_a_source_that_fails_ends_nothing_and_is_said(site):
    site.source.told = [job("7", "running", "n1", started_at=START)]
    site.cycles(3)
    site.source.told = FleetError("squeue has not answered within 20 s")
    site.cycles(200)
    frame = site.daemon.frames["tr11"]
    assert frame.scheduler.state == "unknown"
    assert [node.name for node in frame.nodes] == ["n1"]
    (said,) = [i for i in site.daemon.desk.incidents.values() if i.signature == "fleet_silent" and i.state == "open"]
    assert "squeue has not answered" in said.summary
    site.source.told = [job("7", "running", "n1", started_at=START)]
    site.cycles(60)
    assert site.daemon.frames["tr11"].scheduler.state == "running"


def test_a_sick_controller_is_asked_less_often(site):
    site.source.told = FleetError("no answer")
    site.cycles(180)
    assert site.source.asked < 12


def test_nodes_are_watched_for_a_while_after_the_end_and_then_no_longer(site):
    site.source.told = [job("7", "running", "n1", started_at=START)]
    site.cycles(8)
    site.source.told = [job("7", "failed", "n1", started_at=START, ended_at=START + 90)]
    site.cycles(8)
    assert [node.name for node in site.daemon.frames["tr11"].nodes] == ["n1"]
    site.cycles(20)
    assert site.daemon.frames["tr11"].nodes == ()


def test_a_run_whose_job_ended_stays_for_a_day_and_then_its_incidents_end_too(site):
    site.source.told = [job("7", "running", "n1", started_at=START)]
    site.cycles(3)
    site.source.told = [job("7", "cancelled", "n1", started_at=START, ended_at=START + 90)]
    site.cycles(140)
    assert "not_restarted" in {i.signature for i in site.daemon.desk.incidents.values() if i.run == "tr11"}
    site.cycles(22, 3600)
    assert site.names == ["own", "tr11"]
    site.cycles(3, 3600)
    assert site.names == ["own"]
    assert not [i for i in site.daemon.desk.incidents.values() if i.run == "tr11" and i.state == "open"]


def test_a_job_that_ended_before_anybody_looked_is_no_run(site):
    site.source.told = [job("7", "failed", "n1", started_at=START - 900, ended_at=START - 100)]
    site.cycles(8)
    assert site.names == ["own"]


def test_found_runs_and_their_nodes_are_there_after_a_restart_while_the_scheduler_is_silent(tmp_path):
    clock, source = FakeClock(START), Source()
    one = Site(tmp_path, clock, source)
    source.told = [job("7", "running", "n1", started_at=START)]
    one.cycles(3)
    one.close()
    source.told = FleetError("no answer")
    again = Site(tmp_path, clock, source)
    again.cycles(2)
    assert again.names == ["own", "tr11"]
    frame = again.daemon.frames["tr11"]
    assert ([node.name for node in frame.nodes], frame.attempt.nodes) == (["n1"], ("n1",))
    again.close()


def test_a_job_named_like_another_run_does_not_take_its_place(tmp_path, caplog):
    one = Site(tmp_path, FakeClock(START), Source(), match={"slurm_user": "*"})
    one.source.told = [job("7", "running", "n1", name="own", started_at=START)]
    one.cycles(3)
    assert one.names == ["own"]
    assert caplog.text.count("another run of the config has its name") == 1
    one.close()


def test_a_run_with_a_fixed_name_is_there_before_its_first_job(tmp_path):
    one = Site(tmp_path, FakeClock(START), Source(), name="tr11-176B")
    one.cycles(3)
    assert one.names == ["own", "tr11-176B"]
    assert one.daemon.frames["tr11-176B"].scheduler.state == "none"
    one.close()


def test_the_log_of_each_job_is_followed_and_the_one_before_read_to_its_end(tmp_path):
    log = {"path": f"{tmp_path}/%x-%j.out", "tail": "daemon"}
    one = Site(tmp_path, FakeClock(START), Source(), logs=[log])
    filled = {"%x": "tr11", "%j": "7"}
    one.source.told = [job("7", "running", "n1", started_at=START, log_names=filled)]
    one.cycles(3)
    (tmp_path / "tr11-7.out").write_text("step=1 loss=2.0\n")
    one.cycles(2)
    assert one.daemon.frames["tr11"].progress.last_step == 1
    one.source.told = [job("8", "running", "n1", started_at=START + 60, log_names=filled | {"%j": "8"})]
    (tmp_path / "tr11-8.out").write_text("step=2 loss=2.0\n")
    one.cycles(8)
    frame = one.daemon.frames["tr11"]
    assert (frame.attempt.number, frame.progress.last_step) == (2, 2)
    assert {source.path for source in frame.log_sources} >= {f"{tmp_path}/tr11-8.out"}
    one.close()


def test_more_runs_than_are_watched_push_none_out_that_is_known_and_running(site):
    many = [job(str(n), "running", f"n{n}", name=f"tr{n}", started_at=START) for n in range(100, 300)]
    site.source.told = many
    site.cycles(3)
    assert len(site.names) == 201
    site.source.told = [*(job(f"9{n}", "pending", name=f"tr-new-{n}") for n in range(1000)), *many]
    site.cycles(8)
    assert len(site.names) == 201
    assert {site.daemon.frames[f"tr{n}"].scheduler.state for n in range(100, 300)} == {"running"}


def test_runs_that_ended_long_ago_make_room_for_one_that_begins(site, monkeypatch):
    monkeypatch.setattr("watcher.daemon.fleet.MAX_RUNS", 2)
    for name in ("tr1", "tr2"):
        site.source.told = [job(name, "running", "n1", name=name, started_at=START)]
        site.cycles(7)
    site.source.told = [job("3", "running", "n3", name="tr3", started_at=START)]
    site.cycles(7)
    assert site.names == ["own", "tr1", "tr2"]  # what ended just now is still of interest
    site.cycles(400)
    assert site.names == ["own", "tr2", "tr3"]


def test_what_another_rule_has_found_is_not_told_of_twice(tmp_path):
    clock, source = FakeClock(START), Source()
    one = Site(tmp_path, clock, source)
    fleet = one.fleet
    other = Feed("other", Source(), [Rule("{queue}", lambda job: True)], 60)
    other.source.told = [replace(job("9", "completed", "x1", ended_at=START), labels={"queue": "tr11"})]
    fleet.feeds = [*fleet.feeds, other]
    source.told = [job("7", "running", "n1", started_at=START)]
    one.cycles(20)
    assert one.daemon.frames["tr11"].scheduler.job_id == "7"
    one.store.close()
