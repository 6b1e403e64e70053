"""No order, loss or doubling of answers opens a key twice, resolves without fresh healthy data, or raises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.runs import FREE, IDLE, SPIN, START, WORK, Level, ScriptedRun
from watcher.events import LogEvent

LOST = replace(WORK, state="lost", power_watts=None, utilization_ratio=None, memory_gib=None, error="GPU is lost")
BLIND = Level(power_watts=None, utilization_ratio=None, memory_utilization_ratio=None, memory_gib=None)
LEVELS = [WORK, SPIN, IDLE, FREE, LOST, BLIND, None]

events = st.one_of(
    st.builds(
        lambda step, loss: LogEvent(event="step", step=step, loss=loss), st.integers(0, 2000), st.floats(width=32)
    ),
    st.builds(
        lambda p, e: LogEvent(event="phase", phase=p, edge=e),
        st.sampled_from(["startup", "training", "evaluation", "checkpoint", "finished"]),
        st.sampled_from(["start", "end"]),
    ),
    st.builds(
        lambda k, c: LogEvent(event="error", kind=k, message="x", cascade=c),
        st.sampled_from(["ecc", "nccl_timeout", "slurm_cancelled", "oom_gpu", "other"]),
        st.booleans(),
    ),
    st.just(LogEvent(event="progress", counter=1.0)),
)
moment = st.fixed_dictionaries(
    {
        "levels": st.lists(st.sampled_from(LEVELS), min_size=2, max_size=2),
        "events": st.lists(events, max_size=4),
        "repeat": st.integers(1, 40),
        "fault": st.sampled_from(["none", "none", "doubled", "late", "lost"]),
    }
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(moment, min_size=1, max_size=12))
def test_whatever_comes_in_whatever_order(moments: list[dict[str, Any]]) -> None:
    run = ScriptedRun(gpus=2, interval=10.0)
    open_keys: set[str] = set()
    held: list[Any] = []
    for item in moments:
        shown = dict(zip(run.nodes, item["levels"], strict=True))
        run.level = lambda node, index, t, shown=shown: shown[node]
        for number in range(item["repeat"]):
            run.t += run.interval
            said = [(run.t - 1.0, event) for event in item["events"]] if number == 0 else []
            for node in run.nodes:
                answer = run.answer(node, said if node == run.nodes[0] else [])
                match item["fault"]:
                    case "doubled":
                        run.fold.observe(answer)
                        run.fold.observe(answer)
                    case "late":
                        held.append(answer)
                        if len(held) > 3:
                            run.fold.observe(held.pop(0))
                    case "lost":
                        pass
                    case _:
                        run.fold.observe(answer)
            result = run.pipeline.tick(START + run.t)
            for change in result.transitions:
                key = change.incident.key
                if change.event == "opened":
                    assert key not in open_keys, f"{key} opened twice"
                    open_keys.add(key)
                elif change.event == "resolved":
                    open_keys.discard(key)
                    silent = item["fault"] == "lost" or all(level in (None, BLIND) for level in item["levels"])
                    hang = change.incident.signature == "low_power_deadlock" and change.incident.opens > 0
                    moved = any(e.event in ("step", "phase", "progress") for e in item["events"])
                    stopped = any(e.kind == "slurm_cancelled" for e in item["events"])
                    assert not (hang and silent and not moved and not stopped), "resolved on silence"
        assert not run.pipeline.evaluator.failures, dict(run.pipeline.evaluator.failures)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(events, max_size=60), st.lists(st.floats(0, 4000), min_size=60, max_size=60))
def test_any_stream_of_events_survives_a_save_and_a_load(stream: list[LogEvent], gaps: list[float]) -> None:
    run, again = ScriptedRun(gpus=1), ScriptedRun(gpus=1)
    at = START
    for event, gap in zip(stream, gaps, strict=False):
        at += gap
        run.fold.observe_event(at, event)
    saved = run.fold.dump()
    again.fold.load(saved)
    assert again.fold.dump() == saved
    a, b = run.fold.frame(at + 10), again.fold.frame(at + 10)
    assert (a.attempt.number, a.phase, a.progress.last_step) == (b.attempt.number, b.phase, b.progress.last_step)
