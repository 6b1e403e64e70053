"""A node fault and the stop that follows from it are one page, with the cause first."""

from __future__ import annotations

from dataclasses import replace

from alerts.policy import AlertPolicy, ChannelTraits, decide
from tests.support.runs import SPIN, START, WORK, ScriptedRun, opened

POLICY = AlertPolicy(channels={"oncall": ChannelTraits(keeps_state=True, escalates=True)}, group_wait_seconds=0.0)
LOST = replace(WORK, state="lost", power_watts=None, utilization_ratio=None, memory_gib=None, error="GPU is lost")


def pages(run: ScriptedRun, until: float) -> list[str]:
    """Keys that one channel is told of, in order."""
    told, keys = {}, []
    while run.t + run.interval <= until:
        run.play(run.t + run.interval)
        decision = decide(run.pipeline.incidents, told, POLICY, START + run.t)
        told = decision.told
        keys += [intent.incident.key for intent in decision.intents if intent.kind == "opened"]
    return keys


def test_a_gpu_that_is_lost_and_the_run_that_hangs_on_it_are_one_page():
    run = ScriptedRun()
    run.steps(60, 1200, 10, 1)
    run.level = lambda node, index, t: WORK if t <= 1200 else LOST if (node, index) == ("n2", 3) else SPIN
    assert pages(run, 2400) == ["n2/gpu_lost/GPU-n2-0003"]
    stall = run.pipeline.incidents["train/stall"]
    assert stall.state == "open"
    assert "it began when GPU 3 of n2 was lost" in stall.summary


def test_a_hang_long_after_a_gpu_was_lost_is_a_page_of_its_own():
    run = ScriptedRun()
    run.steps(60, 6000, 10, 1)
    run.level = lambda node, index, t: LOST if (node, index) == ("n2", 3) and t > 600 else WORK if t <= 6000 else SPIN
    assert pages(run, 7200) == ["n2/gpu_lost/GPU-n2-0003", "train/stall"]


def test_when_the_cause_is_mended_and_the_run_still_stands_that_is_paged():
    run = ScriptedRun()
    run.steps(60, 1200, 10, 1)
    run.level = lambda node, index, t: WORK if t <= 1200 else LOST if (node, index) == ("n2", 3) and t < 2000 else SPIN
    assert pages(run, 3000) == ["n2/gpu_lost/GPU-n2-0003", "train/stall"]


def test_a_hang_without_a_fault_is_paged_as_such():
    run = ScriptedRun()
    run.steps(60, 1200, 10, 1)
    run.level = lambda node, index, t: WORK if t <= 1200 else SPIN
    assert pages(run, 2400) == ["train/stall"]
    assert not opened(run.transitions, "gpu_lost")
