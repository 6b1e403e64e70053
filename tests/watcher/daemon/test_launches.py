"""Launches of a scheduler are attempts of the run, once each, whoever tells of them first."""

from __future__ import annotations

from typing import Any

import pytest

from detectors.frame import Frame, Scheduler
from watcher.daemon.fold import RunFold, RunSettings
from watcher.events import LogEvent
from watcher.fleet._api import Place
from watcher.fleet._group import Ended

T = 1_700_000_000.0
BANNER = LogEvent(event="phase", phase="startup", edge="start")


class Run:
    def __init__(self) -> None:
        self.fold = RunFold(RunSettings(name="r", follows=True))
        self.fold.set_nodes([Place(node="n1"), Place(node="n2")])

    def says(self, t: float, state: str, job: str | None = "7", *ended: Ended, **more: Any) -> None:
        self.fold.observe_scheduler(T + t, Scheduler(state=state, job_id=job, **more), ended)

    def runs(self, t: float, job: str = "7", restarts: int = 0, start: float | None = None, *ended: Ended) -> None:
        self.says(t, "running", job, *ended, restarts=restarts, started_at=T + (t if start is None else start))

    def step(self, t: float, step: int) -> None:
        self.fold.observe_event(T + t, LogEvent(event="step", step=step, total_steps=1000))

    def error(self, t: float, kind: Any = "ecc", **more: Any) -> None:
        self.fold.observe_event(T + t, LogEvent(event="error", kind=kind, message="boom", **more))

    def frame(self, t: float) -> Frame:
        return self.fold.frame(T + t)


def ended(state: str, t: float, job: str = "7", restarts: int = 0, start: float | None = None, **more: Any) -> Ended:
    at = None if start is None else T + start
    return Ended(job_id=job, restarts=restarts, state=state, at=T + t, started_at=at, text=f"slurm: {state}", **more)


@pytest.fixture
def run() -> Run:
    one = Run()
    one.runs(0)
    one.step(20, 1)
    one.step(30, 2)
    return one


def test_a_requeue_keeps_the_jobs_number_and_is_another_attempt(run):
    run.says(60, "pending", restarts=1)
    run.runs(120, restarts=1)
    frame = run.frame(130)
    assert frame.attempt.number == 2
    assert frame.past_attempts[0].ends == "stopped"
    assert frame.phase.name == "startup"


def test_a_job_that_was_gone_and_runs_under_the_same_name_is_another_attempt(run):
    run.says(60, "none")
    assert run.frame(65).scheduler.state == "gone"
    run.runs(300, start=290)
    assert run.frame(310).attempt.number == 2


def test_a_job_that_a_listing_has_missed_once_is_the_same_attempt(run):
    run.says(60, "none")
    run.runs(90, start=0)
    assert run.frame(100).attempt.number == 1


def test_a_launch_that_the_log_has_told_already_is_not_counted_twice(run):
    run.error(40)
    run.fold.observe_event(T + 100, BANNER)
    run.runs(150, restarts=1, start=98)
    assert run.frame(160).attempt.number == 2
    run.runs(210, restarts=1, start=98)
    assert run.frame(220).attempt.number == 2


def test_a_requeue_that_the_log_has_told_does_not_count_as_the_end_of_the_new_attempt(run):
    run.fold.observe_event(T + 100, BANNER)
    run.runs(150, restarts=1, start=98)
    frame = run.frame(160)
    assert (frame.attempt.number, frame.attempt.stopped) == (2, None)


def test_a_launch_that_was_given_back_while_the_next_task_runs_was_no_crash(run):
    run.runs(60, "8", 0, 55, ended("requeued", 50))
    frame = run.frame(70)
    assert (frame.attempt.number, frame.attempt.stopped) == (2, None)
    assert frame.past_attempts[0].ends == "stopped"


def test_a_banner_after_the_scheduler_has_told_is_the_same_launch(run):
    run.runs(100, "8")
    run.fold.observe_event(T + 110, BANNER)
    run.step(120, 1)
    assert run.frame(130).attempt.number == 2


@pytest.mark.parametrize(
    ("state", "ends", "stopped"),
    [
        ("timeout", "stopped", "time_limit"), ("cancelled", "stopped", "cancelled"),
        ("preempted", "stopped", "preempted"),
        ("failed", "crashed", None), ("node_fail", "crashed", None), ("out_of_memory", "crashed", None),
    ],
)  # fmt: skip
def test_each_way_to_end_ends_an_attempt_rightly(run, state, ends, stopped):
    run.says(60, state, "7", ended(state, 50))
    assert run.frame(70).attempt.stopped == stopped
    run.runs(120, "8")
    assert run.frame(130).past_attempts[0].ends == ends


def test_a_failed_node_is_the_cause_and_tied_to_the_run(run):
    run.says(60, "node_fail", "7", ended("node_fail", 50, node="n2.cluster.example"))
    (error,) = run.frame(70).attempt.errors
    assert (error.kind, error.node, error.cascade) == ("node_fail", "n2", False)


def test_what_the_log_said_stays_the_cause_of_a_failed_job(run):
    run.error(49, "ecc", host="n2")
    run.says(60, "failed", "7", ended("failed", 50))
    run.runs(120, "8")
    assert run.frame(130).past_attempts[0].cause.kind == "ecc"


def test_exit_code_0_with_a_successor_is_an_attempt_and_without_one_the_end(run):
    run.says(60, "pending", "8", ended("completed", 50))
    assert run.frame(70).attempt.ended_early
    run.runs(120, "8")
    assert run.frame(130).past_attempts[0].ends == "stopped"
    run.step(140, 1000)
    run.says(160, "completed", "8", ended("completed", 150, "8"))
    assert not run.frame(170).attempt.ended_early


def test_a_launch_that_came_and_went_between_two_polls_was_an_attempt(run):
    run.says(200, "failed", "8", ended("failed", 50, start=0), ended("failed", 110, "8", start=100))
    run.fold.observe_event(T + 205, BANNER)  # its log is read only now
    run.fold.observe_event(T + 205, BANNER)
    run.error(205, "oom_gpu", host="n2")
    frame = run.frame(210)
    assert frame.attempt.number == 2
    assert [a.ends for a in frame.past_attempts] == ["crashed"]
    run.says(260, "failed", "8", ended("failed", 50, start=0), ended("failed", 110, "8", start=100))
    frame = run.frame(270)
    assert frame.attempt.number == 2
    assert [(e.kind, e.cascade) for e in frame.attempt.errors] == [("oom_gpu", False), ("other", True)]


def test_launches_that_ended_before_anybody_looked_are_history():
    one = Run()
    one.says(0, "failed", "6", ended("failed", -100, "6", start=-900))
    assert one.frame(10).attempt.started_at is None


def test_a_scheduler_that_does_not_answer_is_unknown_and_never_no_job(run):
    assert run.frame(300).scheduler.state == "running"
    assert run.frame(1000).scheduler.state == "unknown"


def test_a_job_that_is_no_longer_listed_is_gone(run):
    run.says(60, "none", None)
    assert run.frame(70).scheduler.state == "gone"
    one = Run()
    one.says(0, "none", None)
    assert one.frame(10).scheduler.state == "none"


def test_a_restart_of_the_daemon_in_the_middle_counts_nothing_twice(run):
    again = Run()
    again.fold = RunFold(RunSettings(name="r", follows=True))
    again.fold.load(run.fold.dump())
    assert list(again.fold.nodes) == ["n1", "n2"]
    again.runs(60, start=0)
    frame = again.frame(70)
    assert (frame.attempt.number, frame.progress.last_step) == (1, 2)
    again.runs(120, "8")
    assert again.frame(130).attempt.number == 2
