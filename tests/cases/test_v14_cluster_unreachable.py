"""All agents silent at once, then one, then three: one page each; silence opens and resolves nothing else."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from alerts.policy import AlertPolicy, ChannelTraits, decide
from tests.support.runs import START, WORK, ScriptedRun, opened, resolved

LOST = replace(WORK, state="lost", power_watts=None, utilization_ratio=None, memory_gib=None, error="GPU is lost")


@pytest.fixture(scope="module")
def played(shared):
    case = json.loads((shared / "data/cases/V14_whole_cluster_unreachable.json").read_text())
    nodes = tuple(case["input"]["nodes"]["name"] % n for n in range(case["input"]["nodes"]["count"]))
    run = ScriptedRun(nodes=nodes, gpus=2, interval=case["config"]["poll_interval_s"])
    run.steps(20, case["input"]["end_t"], 15, 1)

    def level(node: str, index: int, t: float):
        for item in case["input"]["timeline"]:
            if item["from"] <= t < item["to"] and (item["unreachable"] == "all" or node in item["unreachable"]):
                return None
        return LOST if (node, index) == ("n007", 1) and t >= 100 else WORK

    run.level = level
    policy = AlertPolicy(channels={"oncall": ChannelTraits(keeps_state=True, escalates=True)})
    told, pages = {}, []
    while run.t < case["input"]["end_t"]:
        run.play(run.t + run.interval)
        decision = decide(run.pipeline.incidents, told, policy, START + run.t)
        told = decision.told
        pages += [(run.t, intent) for intent in decision.intents if intent.kind == "opened"]
    return run, pages


def at(transition) -> float:
    return transition.at - START


def test_the_whole_cluster_is_one_page_that_points_at_the_watcher_itself(played):
    run, pages = played
    first = [intent for t, intent in pages if 600 <= t < 1200]
    assert len(first) == 1
    assert first[0].incident.evidence["nodes_silent_count"] == 64
    assert "network" in first[0].incident.summary
    ends = [t for t in resolved(run.transitions, "node_unreachable") if at(t) < 1000]
    assert 840 <= at(ends[0]) <= 930


def test_what_was_open_before_stays_open_and_is_not_told_again(played):
    run, pages = played
    assert len(opened(run.transitions, "gpu_lost")) == 1
    assert not resolved(run.transitions, "gpu_lost")
    assert sum(intent.incident.signature == "gpu_lost" for _, intent in pages) == 1


def test_one_silent_node_is_named_in_time(played):
    run, _ = played
    (one,) = [t for t in opened(run.transitions, "node_unreachable") if 1700 < at(t) < 2300]
    assert one.incident.subject.node == "n013"
    assert 1830 <= at(one) <= 1920


def test_three_at_once_are_one_page_that_lists_them(played):
    _, pages = played
    (page,) = [intent for t, intent in pages if 2400 <= t < 2700]
    names = {member.subject.node for member in page.members}
    assert names == {"n020", "n021", "n022"}


def test_silence_alone_is_no_hang_and_no_lost_gpu(played):
    run, _ = played
    assert {t.incident.signature for t in opened(run.transitions)} == {"gpu_lost", "node_unreachable"}
