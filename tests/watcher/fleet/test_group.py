"""Which jobs are one run, which is its present launch, what waits for it."""

from __future__ import annotations

from typing import Any

from watcher.fleet._api import Job, Place
from watcher.fleet._group import Rule, Sight, sight_of, sights


def job(number: str, state: Any = "running", *nodes: str, **more: Any) -> Job:
    usual: dict[str, Any] = {
        "name": "tr11", "labels": {"job_name": "tr11", "job_id": number}, "submitted_at": 1.0,
        "places": tuple(Place(node=node) for node in nodes),
    }  # fmt: skip
    return Job(id=number, state=state, **(usual | more))


def sight(*jobs: Job) -> Sight:
    return sight_of("run", "slurm", jobs)


def test_an_array_is_one_run_whose_running_task_is_the_attempt():
    seen = sight(
        job("1_1", "timeout", "n1", started_at=10.0, ended_at=20.0),
        job("1_2", "running", "n2", "n3", started_at=21.0, ends_by_at=99.0),
        job("1_[3-9%1]", "pending"),
    )
    assert seen.scheduler is not None
    assert (seen.scheduler.state, seen.scheduler.job_id, seen.scheduler.successor_waits) == ("running", "1_2", True)
    assert (seen.scheduler.nodes, seen.scheduler.ends_by_at) == (("n2", "n3"), 99.0)
    assert [(e.job_id, e.state) for e in seen.ended] == [("1_1", "timeout")]


def test_a_task_that_was_given_back_is_told_while_another_runs():
    seen = sight(
        job("1_1", "pending", restarts=1, submitted_at=50.0), job("1_2", "running", "n1", started_at=51.0, restarts=1)
    )
    assert [(e.job_id, e.restarts, e.state, e.at) for e in seen.ended] == [("1_1", 0, "requeued", 50.0)]


def test_a_job_that_waits_for_the_last_one_is_the_next_attempt():
    seen = sight(job("7", "failed", "n1", ended_at=20.0, reason="exit code 1:0"), job("8", "pending"))
    assert seen.scheduler is not None
    assert (seen.scheduler.state, seen.scheduler.job_id, seen.places) == ("pending", "8", ())
    assert seen.ended[0].text == "slurm: job 7 failed (exit code 1:0)"


def test_nothing_that_runs_or_waits_is_how_the_last_one_ended():
    seen = sight(job("7", "failed", ended_at=20.0), job("8", "cancelled", ended_at=30.0))
    assert seen.scheduler is not None
    assert (seen.scheduler.state, seen.scheduler.over, seen.scheduler.successor_waits) == ("cancelled", True, False)


def test_a_job_that_is_held_is_no_successor():
    seen = sight(job("7", "failed", ended_at=20.0), job("8", "pending", held=True, reason="JobHeldUser"))
    assert seen.scheduler is not None
    assert (seen.scheduler.state, seen.scheduler.held, seen.scheduler.reason) == ("failed", True, "JobHeldUser")
    assert not seen.scheduler.successor_waits


def test_of_two_at_once_the_later_is_watched_and_that_is_said():
    seen = sight(job("7", "running", "n1", started_at=10.0), job("8", "running", "n2", started_at=20.0))
    assert [place.node for place in seen.places] == ["n2"]
    assert seen.scheduler is not None
    assert "2 jobs of it run at once, 8 is watched" in seen.scheduler.note


def test_parts_of_one_job_are_watched_together():
    seen = sight(
        job("7", "running", "n1", started_at=10.0, part_of="7"), job("8", "running", "n2", started_at=10.0, part_of="7")
    )
    assert [place.node for place in seen.places] == ["n1", "n2"]
    assert seen.scheduler is not None
    assert seen.scheduler.note == ""


def test_devices_of_two_parts_on_one_node_are_joined_and_unknown_ones_stay_unknown():
    part: dict[str, Any] = {"started_at": 10.0, "part_of": "7"}
    first = job("7", places=(Place(node="n1", gpu_minors=(0, 1)),), **part)
    second = job("8", places=(Place(node="n1", gpu_minors=(4,)),), **part)
    unknown = job("9", places=(Place(node="n1"),), **part)
    assert sight(first, second).places == (Place(node="n1", gpu_minors=(0, 1, 4)),)
    assert sight(first, second, unknown).places == (Place(node="n1"),)


def test_no_job_at_all_is_none_and_a_list_knows_no_scheduler():
    assert sight().scheduler is not None
    assert sight().scheduler.state == "none"  # type: ignore[union-attr]
    listed = sight(job("x", "listed", "n1"))
    assert listed.scheduler is None
    assert [place.node for place in listed.places] == ["n1"]


def test_a_name_with_placeholders_is_a_run_for_each_value():
    rules = [Rule("{job_name}", lambda job: True), Rule("fixed", lambda job: job.id == "9")]
    jobs = [job("1", labels={"job_name": "a"}), job("2", labels={"job_name": "b/../\n"}), job("3", labels={})]
    told = sights("slurm", rules, jobs)
    assert set(told) == {"a", "b_..__", "unnamed", "fixed"}
    assert told["fixed"][1].job is None


def test_a_flood_of_names_is_bounded():
    told = sights("slurm", [Rule("{job_id}", lambda job: True)], [job(str(n)) for n in range(1000)])
    assert len(told) == 200
