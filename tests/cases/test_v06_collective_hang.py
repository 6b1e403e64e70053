"""A collective hang over the whole daemon side: one page, its facts, and a resolve only after real progress."""

from __future__ import annotations

import json

import pytest

from tests.support.runs import START, Level, ScriptedRun, opened, resolved
from watcher.events import LogEvent


@pytest.fixture(scope="module")
def case(shared):
    return json.loads((shared / "data/cases/V06_hang_full_util_low_power.json").read_text())


@pytest.fixture(scope="module")
def played(case):
    hang = {(n["node"], int(g["uuid"][-4:])): g for n in case["input"]["nodes"] for g in n["gpus"]}
    run = ScriptedRun(nodes=("n01", "n02"), interval=case["config"]["poll_interval_s"], name="job 7001")

    def level(node: str, index: int, t: float) -> Level:
        if 1200 <= t < 2400:
            gpu = hang[node, index]
            return Level(power_watts=gpu["hang_power_w"], utilization_ratio=gpu["hang_util"] / 100, wobble_watts=0.5)
        return Level(power_watts=655, utilization_ratio=0.98, wobble_watts=35)

    run.level = level
    run.steps(10, 1200, 10, 1)
    run.say(2400, LogEvent(event="phase", phase="startup", edge="start"))
    run.steps(2580, 3000, 10, 100)
    run.play(3000)
    return run


def test_it_opens_once_in_time_for_the_run_and_not_before(case, played):
    pages = opened(played.transitions)
    assert [(p.incident.run, p.incident.severity.label) for p in pages] == [("job 7001", "critical")]
    first, last = case["expect"][0]["open_between"]
    assert first <= pages[0].at - START <= last


def test_the_page_holds_the_facts(played):
    (page,) = opened(played.transitions)
    incident = page.incident
    assert "last step 120" in incident.summary
    assert "no progress for" in incident.summary
    assert "n02 gpu 5" in incident.summary
    assert incident.evidence["odd"]["gpu"].endswith("0005")
    assert incident.evidence["power"].startswith("16 of 16 GPUs at or below 11 % of their power limit")
    assert "cause" not in incident.summary


def test_it_resolves_only_after_progress_of_the_new_attempt(case, played):
    (end,) = resolved(played.transitions)
    first, last = next(e for e in case["expect"] if e["check"] == "finding_resolves")["between"]
    assert first <= end.at - START <= last
