"""A slow but healthy run, and one whose output comes in bursts hours apart: quiet, until they really hang."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from detectors.startup_stall import StartupStallConfig
from tests.support.log_runs import level_by_time, play_logs
from tests.support.runs import START, ScriptedRun, opened
from watcher.config.logs import LogConfig, LogPatterns


def case(shared: Path, name: str) -> dict[str, Any]:
    (file,) = (shared / "data/cases").glob(f"{name}_*.json")
    return json.loads(file.read_text())


def slow_run(shared: Path, folder: Path, operations, rows, until: float) -> ScriptedRun:
    config = case(shared, "V07")["config"]
    patterns = LogPatterns.model_validate(
        {
            "step": config["step_pattern"],
            "finished": config["end_pattern"],
            "phases": [
                {
                    "name": {"eval": "evaluation"}.get(phase["name"], phase["name"]),
                    "start": phase["begin"],
                    "end": phase["end"],
                    "max_seconds": phase["max_s"],
                }
                for phase in config["phases"]
            ],
        }
    )
    grace = config["first_step_grace_s"]
    limits = StartupStallConfig(warning_seconds=grace, critical_seconds=grace)
    run = ScriptedRun(nodes=("n1",), configs={"startup_stall": limits})
    run.level = level_by_time(rows)
    return play_logs(run, [LogConfig(path=f"{folder}/train.log", patterns=patterns)], operations, folder, until)


def alarming(run: ScriptedRun) -> list[str]:
    return [t.incident.signature for t in opened(run.transitions) if t.incident.severity.label == "critical"]


def test_v07_nobody_is_woken_in_a_slow_first_step_a_long_save_a_long_evaluation_and_a_pause(shared, tmp_path):
    script = case(shared, "V07")
    run = slow_run(shared, tmp_path, script["input"]["ops"], script["input"]["gpu_by_time"], 9900)
    assert alarming(run) == []
    frame = run.pipeline.frames["train"]
    assert frame.phase.name == "finished"
    assert frame.progress.last_step == 950


def test_v07_a_save_that_never_ends_is_paged_at_its_own_limit_by_its_name(shared, tmp_path):
    script = case(shared, "V07")
    operations = [op for op in script["input"]["ops"] if op["t"] <= 3901]
    rows = [row for row in script["input"]["gpu_by_time"] if row["from"] < 4000]
    rows[-1] = {**rows[-1], "to": 9900}
    run = slow_run(shared, tmp_path, operations, rows, 6200)
    (page,) = [t for t in opened(run.transitions) if t.incident.severity.label == "critical"]
    assert 5701 <= page.at - START <= 5900
    assert "checkpoint" in page.incident.summary
    assert page.incident.evidence["limit_seconds"] == 1800


def test_v07_a_lost_end_marker_is_mended_by_the_next_step(shared, tmp_path):
    script = case(shared, "V07")
    operations = [op for op in script["input"]["ops"] if "checkpoint saved" not in str(op.get("text"))]
    run = slow_run(shared, tmp_path, operations, script["input"]["gpu_by_time"], 4820)
    assert alarming(run) == []
    assert run.pipeline.frames["train"].phase.name == "training"


def test_v07_a_restart_in_the_middle_of_a_save_begins_anew(shared, tmp_path):
    script = case(shared, "V07")
    operations = [op for op in script["input"]["ops"] if op["t"] <= 3901]
    operations += [
        {"t": 4200, "op": "append", "path": "train.log", "text": "[rank0] starting run demo, world_size=16\n"},
        {"t": 5700, "op": "append", "path": "train.log", "text": "[rank0] step=401 loss=2.7 tok/s=41200\n"},
        *(
            {"t": 5700 + 60 * n, "op": "append", "path": "train.log", "text": f"[rank0] step={401 + 10 * n} loss=2.7\n"}
            for n in range(1, 10)
        ),
    ]
    rows = [row for row in script["input"]["gpu_by_time"] if row["from"] < 3900]
    rows += [
        {"from": 3900, "to": 4150, "util": 0, "power_w": 90},
        {"from": 4150, "to": 4200, "util": 0, "power_w": 70, "free": True},
        {"from": 4200, "to": 5690, "util": 2, "power_w": 95},
        {"from": 5690, "to": 9900, "util": 97, "power_w": 640},
    ]
    run = slow_run(shared, tmp_path, operations, rows, 6200)
    assert alarming(run) == []
    frame = run.pipeline.frames["train"]
    assert (frame.attempt.number, frame.phase.name) == (2, "training")


@pytest.fixture(scope="module")
def buffered(shared, tmp_path_factory):
    script = case(shared, "V08")
    folder = tmp_path_factory.mktemp("v08")
    limits = StartupStallConfig(
        warning_seconds=script["config"]["first_step_grace_s"], critical_seconds=script["config"]["first_step_grace_s"]
    )
    run = ScriptedRun(nodes=("n1",), interval=20.0, configs={"startup_stall": limits})
    run.level = level_by_time(script["input"]["gpu_by_time"])
    patterns = LogPatterns(step=script["config"]["step_pattern"])
    logs = [LogConfig(path=f"{folder}/slurm.out", patterns=patterns)]
    return play_logs(run, logs, script["input"]["ops"], folder, script["input"]["end_t"])


def test_v08_hours_of_silence_while_the_gpus_work_wake_nobody(buffered):
    early = [t for t in opened(buffered.transitions) if t.at - START < 40_600]
    assert [t for t in early if t.incident.severity.label == "critical"] == []


def test_v08_the_real_hang_is_paged_when_power_falls_to_spin_level(buffered):
    pages = [t for t in opened(buffered.transitions) if t.incident.severity.label == "critical"]
    pages += [t for t in buffered.transitions if t.event == "updated" and t.incident.signature == "low_power_deadlock"]
    assert 40_600 <= pages[0].at - START <= 42_700
    assert pages[0].incident.signature == "low_power_deadlock"


def test_v08_it_is_known_that_output_comes_in_bursts(buffered):
    assert buffered.pipeline.frames["train"].progress.burst_seconds > 5000
