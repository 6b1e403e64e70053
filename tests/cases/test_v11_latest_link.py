"""The link `latest` moves to a new run folder after a crash: the cause, the new attempt, the step that goes back."""

from __future__ import annotations

import json

import pytest

from detectors.crash import CrashConfig
from tests.support.log_runs import level_by_time, play_logs
from tests.support.runs import START, ScriptedRun, opened, resolved
from watcher.config.logs import LogConfig


@pytest.fixture(scope="module")
def played(shared, tmp_path_factory):
    script = json.loads((shared / "data/cases/V11_latest_symlink_switch.json").read_text())
    folder = tmp_path_factory.mktemp("v11")
    interval = float(script["config"]["poll_interval_s"])
    run = ScriptedRun(nodes=("n1",), interval=interval, configs={"crash": CrashConfig(restart_hold_seconds=0)})
    run.level = level_by_time(script["input"]["gpu_by_time"])
    logs = [LogConfig(path=f"{folder}/latest/train.log")]
    return play_logs(run, logs, script["input"]["ops"], folder, script["input"]["end_t"])


def test_the_crash_is_told_once_with_its_cause_and_over_with_the_next_step(played):
    (page,) = opened(played.transitions, "crash")
    assert 902 <= page.at - START <= 960
    assert "cuda_error" in page.incident.summary
    (end,) = resolved(played.transitions, "crash")
    assert 2212 <= end.at - START <= 2300


def test_the_new_folder_is_a_new_attempt_and_its_lower_step_no_alarm(played):
    frame = played.pipeline.frames["train"]
    assert frame.attempt.number == 2
    assert frame.attempt.started_at - START <= 915
    assert frame.progress.last_step == 990
    critical = {t.incident.signature for t in opened(played.transitions) if t.incident.severity.label == "critical"}
    assert critical == {"crash"}
