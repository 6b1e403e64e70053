"""A driver mismatch while the job runs on, and ECC in all its states: what is told and what is only history."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from detectors.telemetry import SourceHealth
from tests.support.runs import START, ScriptedRun, opened, resolved
from watcher.daemon.answer import Answer
from watcher.events import LogEvent


def at(transition) -> float:
    return transition.at - START


def load(shared, name: str):
    (file,) = (shared / "data/cases").glob(f"{name}_*.json")
    return json.loads(file.read_text())


@pytest.fixture(scope="module")
def mismatch(shared):
    case = load(shared, "V04")
    run = ScriptedRun(nodes=("n01",), interval=case["config"]["collect_interval_s"])
    run.steps(10, 3500, 10, 1)
    run.say(3505, LogEvent(event="phase", phase="finished", edge="start"))
    observe = run.fold.observe

    def changed(answer: Answer) -> None:
        if 300 <= run.t < 3600:
            text = "driver and library differ in version after an update: jobs go on, readings need a reboot"
            health = {"nvml": SourceHealth(ok=False, kind="driver_mismatch", error=text)}
            snapshot = answer.snapshot.model_copy(update={"gpus": (), "gpus_age_seconds": None, "health": health})
            answer = replace(answer, snapshot=snapshot)
        else:
            health = {"nvml": SourceHealth(ok=True)}
            answer = replace(answer, snapshot=answer.snapshot.model_copy(update={"health": health}))
        observe(answer)

    run.fold.observe = changed  # type: ignore[method-assign]
    run.play(case["input"]["end_t"])
    return run


def test_v04_blindness_is_a_warning_with_its_reason_and_ends_with_the_reboot(mismatch):
    (told,) = opened(mismatch.transitions, "monitoring_blind")
    assert 300 <= at(told) <= 480
    assert told.incident.severity.label == "warning"
    assert "reboot" in told.incident.summary
    (end,) = resolved(mismatch.transitions, "monitoring_blind")
    assert 3600 <= at(end) <= 3720


def test_v04_steps_go_on_being_known_and_nothing_is_called_dead_or_hung(mismatch):
    assert mismatch.pipeline.frames["train"].progress.last_step == 350
    assert {t.incident.signature for t in opened(mismatch.transitions)} <= {"monitoring_blind", "completed"}


@pytest.fixture(scope="module")
def ecc(shared):
    """Counters per GPU over time, as the case scripts them; the run goes on throughout."""
    case = load(shared, "V05")
    run = ScriptedRun(nodes=("n01",), interval=case["config"]["collect_interval_s"])
    run.steps(10, case["input"]["end_t"], 10, 1)
    changes = sorted((e for e in case["input"]["timeline"] if "set" in e), key=lambda e: e["t"])
    ramp = next(e for e in case["input"]["timeline"] if "ramp" in e)
    state: dict[int, dict[str, object]] = {gpu: {"ecc_volatile_uncorrected_count": 0} for gpu in range(8)}
    kinds = {(0, 0): "volatile_corrected", (1, 0): "volatile_uncorrected", (0, 1): "aggregate_corrected",
             (1, 1): "aggregate_uncorrected"}  # fmt: skip
    observe = run.fold.observe

    def changed(answer: Answer) -> None:
        while changes and changes[0]["t"] <= run.t:
            for item in changes.pop(0)["set"]:
                gpu = state[item["device"]]
                if item["fn"] == "nvmlDeviceGetRemappedRows":
                    gpu["remapped_uncorrectable_count"] = item["value"][1]
                    gpu["remap_pending"], gpu["remap_failed"] = bool(item["value"][2]), bool(item["value"][3])
                else:
                    gpu[f"ecc_{kinds[tuple(item['args'])]}_count"] = item["value"]
        passed = min(run.t, ramp["ramp"]["until"]) - ramp["t"]
        state[3]["ecc_volatile_corrected_count"] = int(max(0.0, passed) * ramp["ramp"]["per_s"])
        gpus = tuple(replace(gpu, **state[gpu.index]) for gpu in answer.snapshot.gpus)
        observe(replace(answer, snapshot=answer.snapshot.model_copy(update={"gpus": gpus})))

    run.fold.observe = changed  # type: ignore[method-assign]
    run.play(case["input"]["end_t"])
    return run


def of(run: ScriptedRun, gpu: int, change: str) -> list[tuple[str, float]]:
    return [
        (t.incident.signature, at(t))
        for t in run.transitions
        if t.event == change and t.incident.subject.gpu_index == gpu and t.incident.subject.node == "n01"
    ]


def test_v05_what_is_history_is_never_told(ecc):
    assert of(ecc, 0, "opened") == []


def test_v05_a_pending_remap_is_told_once_and_over_when_it_is_done(ecc):
    (told,) = [x for x in of(ecc, 1, "opened") if x[0] == "row_remap_pending"]
    assert 600 <= told[1] <= 700
    (end,) = [x for x in of(ecc, 1, "resolved") if x[0] == "row_remap_pending"]
    assert 1200 <= end[1] <= 1320


def test_v05_a_failed_remap_is_critical(ecc):
    (told,) = opened(ecc.transitions, "row_remap_failed")
    assert 1800 <= at(told) <= 1900
    assert (told.incident.subject.gpu_index, told.incident.severity.label) == (2, "critical")


def test_v05_a_storm_of_corrected_errors_is_one_warning(ecc):
    (told,) = opened(ecc.transitions, "ecc_rate")
    assert 2115 <= at(told) <= 2300
    assert told.incident.severity.label == "warning"
    assert told.incident.subject.gpu_index == 3
