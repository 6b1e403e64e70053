"""What `status` says of the job behind a run."""

from __future__ import annotations

from typing import Any

import pytest

from detectors.frame import Scheduler
from tests.support.frames import NOW, frame
from watcher.cli.status import run_lines
from watcher.daemon.views import run_view


def told(job: Scheduler | None) -> str | None:
    return dict(run_lines(run_view(frame(scheduler=job), ()), NOW)).get("job")


@pytest.mark.parametrize(
    ("job", "line"),
    [
        ({"state": "running", "ends_by_at": NOW + 7200}, "7 running, time limit in 2 h 0 m, none waits"),
        ({"state": "running", "successor_waits": True, "restarts": 2}, "7 running, requeued 2 times, another waits"),
        ({"state": "pending", "reason": "Resources"}, "7 pending (Resources)"),
        ({"state": "out_of_memory"}, "7 out of memory"),
        ({"state": "failed", "held": True, "reason": "JobHeldUser"}, "7 failed (JobHeldUser), what waits is held"),
        ({"state": "none", "job_id": None}, "the scheduler lists no job of this run"),
        ({"state": "running", "note": "2 jobs of it run at once"}, "7 running, none waits, 2 jobs of it run at once"),
    ],
)
def test_a_job_is_one_line(job: dict[str, Any], line: str) -> None:
    assert told(Scheduler(**({"job_id": "7"} | job))) == line


def test_a_run_that_no_scheduler_tells_of_has_no_such_line() -> None:
    assert told(None) is None
