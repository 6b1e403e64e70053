"""What detectors say where a scheduler tells of the run's jobs."""

from __future__ import annotations

from typing import Any

import pytest

from detectors.crash import Crash, CrashConfig
from detectors.frame import Frame, RunError, Scheduler, Strike
from detectors.not_restarted import NotRestarted, NotRestartedConfig
from detectors.not_started import NotStarted, NotStartedConfig
from detectors.repeated_ecc import RepeatedEcc, RepeatedEccConfig
from detectors.struck_node import StruckNode, StruckNodeConfig
from detectors.time_limit import TimeLimit, TimeLimitConfig
from detectors.verdict import Finding, Firing, Unknown
from tests.support.frames import NOW, frame, history, node, records

QUIET: dict[str, Any] = {"last_line_at": NOW - 2000, "last_progress_at": NOW - 2000, "last_step_at": NOW - 2000}


def job(state: str = "running", **more: Any) -> Scheduler:
    return Scheduler(**({"state": state, "job_id": "7", "started_at": NOW - 72_000} | more))


def said(detector: Any, seen: Frame) -> Finding | None:
    verdict = detector.check(seen)
    return verdict.findings[0] if isinstance(verdict, Firing) else None


def unknown(detector: Any, seen: Frame) -> bool:
    return isinstance(detector.check(seen), Unknown)


# -- time_limit


def limited(left: float, **more: Any) -> Frame:
    usual = {"ends_by_at": NOW + left} | {k: more.pop(k) for k in ("successor_waits", "held", "state") if k in more}
    progress = more.pop("progress", {"total_steps": 100_000, "records": records([2.0] * 20)})
    return frame(scheduler=job(**usual), progress=progress, **more)


LIMIT = TimeLimit(TimeLimitConfig())


def test_a_time_limit_that_comes_near_without_a_successor_is_told_with_what_to_do():
    finding = said(LIMIT, limited(3600))
    assert finding is not None
    assert finding.summary == (
        "Job 7 ends in 1 h 0 m by its time limit at step 100 of 100000, and nothing waits to go on"
    )
    assert "sbatch --dependency=afterany:7" in finding.hint
    assert finding.severity.label == "warning"


@pytest.mark.parametrize("more", [{"left": 9000}, {"successor_waits": True}, {"state": "pending"}])
def test_a_limit_that_is_far_or_has_a_successor_is_no_news(more):
    assert said(LIMIT, limited(**({"left": 3600} | more))) is None


def test_a_run_that_will_be_done_before_the_limit_needs_no_successor():
    assert (
        said(LIMIT, limited(3600, progress={"total_steps": 300, "records": records([2.0] * 20, step_seconds=10.0)}))
        is None
    )


def test_a_short_job_does_not_warn_from_its_start():
    short = Scheduler(state="running", job_id="7", started_at=NOW - 600, ends_by_at=NOW + 3000)
    assert said(LIMIT, frame(scheduler=short, progress={"total_steps": 100_000})) is None


def test_a_successor_that_is_held_is_none_and_that_is_said():
    finding = said(LIMIT, limited(3600, held=True))
    assert finding is not None
    assert finding.summary.endswith("(what waits is held)")


def test_without_a_scheduler_nothing_is_known_of_a_limit():
    assert unknown(LIMIT, frame())
    assert unknown(LIMIT, frame(scheduler=job("unknown")))


# -- not_restarted

RESTART = NotRestarted(NotRestartedConfig())


@pytest.mark.parametrize("state", ["failed", "timeout", "cancelled", "node_fail", "preempted", "gone", "out_of_memory"])
def test_nothing_that_runs_and_nothing_that_waits_is_told_also_when_others_have_the_gpus_now(state):
    busy = frame(scheduler=job(state), progress=QUIET, history=history(8))
    finding = said(RESTART, busy)
    assert finding is not None
    assert finding.summary.endswith("nothing waits")
    assert finding.evidence["job_state"] == state


@pytest.mark.parametrize(
    "scheduler", [job("pending"), job("running"), job("failed", successor_waits=True), job("completed")]
)
def test_what_runs_waits_or_is_complete_needs_no_restart(scheduler):
    assert said(RESTART, frame(scheduler=scheduler, progress=QUIET, attempt={"stopped": "time_limit"})) is None


def test_a_successor_that_is_held_does_not_start_by_itself():
    held = job("pending", held=True, reason="launch failed requeued held")
    finding = said(RESTART, frame(scheduler=held, progress=QUIET, attempt={"stopped": "requeued"}))
    assert finding is not None
    assert "given back to the queue" in finding.summary
    assert "held (launch failed requeued held) and will not start by itself" in finding.summary


def test_a_scheduler_that_does_not_answer_neither_fires_nor_resolves():
    assert unknown(RESTART, frame(scheduler=job("unknown"), progress=QUIET, attempt={"stopped": "cancelled"}))


def test_exit_code_0_before_the_target_is_an_end_before_it():
    seen = frame(scheduler=job("completed"), progress=QUIET, attempt={"end_marker_at": NOW - 2000, "ended_early": True})
    finding = said(RESTART, seen)
    assert finding is not None
    assert "ended before its target" in finding.summary


# -- crash, not_started


def test_a_failed_job_is_a_crash_although_another_job_has_its_gpus():
    error = RunError(at=NOW - 300, kind="node_fail", message="slurm: job 7 node fail", node="n2")
    busy = frame(scheduler=job("node_fail"), progress=QUIET, attempt={"errors": (error,)}, history=history(8))
    finding = said(Crash(CrashConfig()), busy)
    assert finding is not None
    assert "node_fail on node n2" in finding.summary


@pytest.mark.parametrize("why", ["preempted", "requeued", "cancelled", "time_limit"])
def test_what_ended_on_purpose_is_no_crash(why):
    assert said(Crash(CrashConfig()), frame(scheduler=job("pending"), progress=QUIET, attempt={"stopped": why})) is None


def test_a_job_that_runs_for_long_without_a_line_is_told():
    waits = frame(node("n1", gpus=()), scheduler=job(started_at=NOW - 1200), attempt={"started_at": None})
    finding = said(NotStarted(NotStartedConfig()), waits)
    assert finding is not None
    assert finding.evidence["scheduler_state"] == "running"


# -- struck_node and repeated_ecc


def strike(at: float, name: str = "n2", **more: Any) -> Strike:
    return Strike(at=at, node=name, kind="ecc_uncorrectable", gpu_index=5, **more)


STRUCK = StruckNode(StruckNodeConfig())


def test_an_attempt_on_a_node_that_was_struck_before_is_told_at_once_with_the_exclude_line():
    seen = frame(scheduler=job(started_at=NOW - 60), strikes=(strike(NOW - 900),), attempt={"number": 2})
    finding = said(STRUCK, seen)
    assert finding is not None
    assert finding.summary == (
        "Attempt 2 is placed on n2, which was struck 15 m 0 s ago (ecc_uncorrectable gpu 5): "
        "to leave it out, --exclude=n2"
    )
    assert finding.severity.label == "warning"


@pytest.mark.parametrize(
    ("scheduler", "strikes"),
    [
        (job(started_at=NOW - 60), (strike(NOW - 30),)),  # in this attempt: that is told otherwise
        (job(started_at=NOW - 60), (strike(NOW - 900, "n7"),)),
        (job(started_at=NOW - 60), (strike(NOW - 900, counted=False),)),
        (job(started_at=NOW - 60), (strike(NOW - 9 * 86_400),)),
        (job("pending"), (strike(NOW - 900),)),
        (None, (strike(NOW - 900),)),
    ],
)
def test_what_is_no_new_placement_on_a_struck_node(scheduler, strikes):
    assert said(STRUCK, frame(scheduler=scheduler, strikes=strikes)) is None


def test_a_second_strike_says_it_more_sharply():
    seen = frame(scheduler=job(started_at=NOW - 600), strikes=(strike(NOW - 900), strike(NOW - 300)))
    warning, page = said(STRUCK, seen), said(RepeatedEcc(RepeatedEccConfig()), seen)
    assert warning is not None
    assert page is not None
    assert page.precision > warning.precision
    assert page.severity > warning.severity
    assert warning.family == "repeated_ecc" == page.signature
