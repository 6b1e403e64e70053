"""Whole scripted situations of log files, as the reference data describes them."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.log_ops import play
from watcher.agent.follow import LogFollower
from watcher.agent.followed import FollowedEvent
from watcher.clock import FakeClock
from watcher.config.logs import LogConfig, LogPatterns

pytestmark = pytest.mark.shared


def case(shared: Path, name: str) -> dict[str, Any]:
    (path,) = (shared / "data/cases").glob(f"{name}_*.json")
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


def steps(events: list[FollowedEvent]) -> list[int]:
    return [e.event.step for e in events if e.event.event == "step" and e.event.step is not None]


def last_step(events: list[tuple[float, FollowedEvent]], at: float) -> int | None:
    seen = steps([event for t, event in events if t <= at])
    return seen[-1] if seen else None


def test_a_progress_bar_without_any_newline_is_progress(shared: Path, tmp_path: Path) -> None:
    script = case(shared, "V09")
    clock = FakeClock()
    follower = LogFollower([LogConfig(path=f"{tmp_path}/train.log")], "n1", None, clock)
    events: list[tuple[float, FollowedEvent]] = []

    def poll(t: float) -> None:
        events.extend((t, event) for event in follower.poll())

    play(script["input"]["ops"], tmp_path, clock, poll, range(0, 2001, 5))

    for expected in script["expect"]:
        if expected["check"] == "last_step_between":
            step = last_step(events, expected["at_t"])
            assert step is not None
            assert expected["min"] <= step <= expected["max"], expected
    seen = steps([event for _, event in events])
    assert seen == sorted(seen)
    assert seen[-1] == 1680  # the last state of the bar has no end at all
    assert all(status.error is None for status in follower.statuses(clock.time()))


OWN_PATTERNS = LogPatterns.model_validate(
    {"step": r"step=(\d+)", "errors": [{"pattern": "uncorrectable ECC", "kind": "ecc"}]}
)


@pytest.mark.parametrize("patterns", [None, OWN_PATTERNS], ids=["built-in formats", "own patterns"])
@pytest.mark.parametrize("down", [False, True], ids=["agent runs on", "agent is down from 48 to 60"])
def test_rotation_and_truncation_lose_and_double_nothing(
    shared: Path, tmp_path: Path, down: bool, patterns: LogPatterns | None
) -> None:
    script = case(shared, "V10")
    clock = FakeClock()
    logs = [LogConfig(path=f"{tmp_path}/logs/train.log", patterns=patterns)]
    (tmp_path / "logs").mkdir()
    state = tmp_path / "positions.json"
    follower = LogFollower(logs, "n1", state, clock)
    rotations = 0
    events: list[FollowedEvent] = []

    def poll(t: float) -> None:
        nonlocal follower, rotations
        if down and 48 <= t <= 60:
            return
        if down and t == 62:
            rotations += follower.tally.rotations
            follower = LogFollower(logs, "n1", state, clock)
        events.extend(follower.poll())
        if down and t == 45:
            follower.close()

    times = [*script["config"]["poll_times_hint"], *range(67, 261, 5)]
    play(script["input"]["ops"], tmp_path / "logs", clock, poll, times)

    seen = Counter(steps(events))
    assert seen == Counter(range(1, 136))
    assert steps(events) == sorted(steps(events)), "a step went backwards"
    assert [e.event.kind for e in events if e.event.event == "error"] == ["ecc"]
    assert rotations + follower.tally.rotations == (2 if down else 3)
    assert not any(event.first for event in events)


def test_a_step_cut_in_two_by_a_buffer_is_not_believed(shared: Path, tmp_path: Path) -> None:
    script = case(shared, "V08")
    clock = FakeClock()
    patterns = LogPatterns(step=script["config"]["step_pattern"])
    follower = LogFollower([LogConfig(path=f"{tmp_path}/slurm.out", patterns=patterns)], "n1", None, clock)
    events: list[FollowedEvent] = []
    play(script["input"]["ops"], tmp_path, clock, lambda t: events.extend(follower.poll()), range(0, 47_201, 20))

    seen = steps(events)
    assert len(seen) > 150
    assert all(step % 100 == 0 for step in seen)
    assert all(a < b for a, b in pairwise(seen))


def test_a_moved_link_is_followed_and_the_old_file_read_to_its_end(shared: Path, tmp_path: Path) -> None:
    script = case(shared, "V11")
    clock = FakeClock()
    follower = LogFollower([LogConfig(path=f"{tmp_path}/latest/train.log")], "n1", None, clock)
    events: list[tuple[float, FollowedEvent]] = []
    play(
        script["input"]["ops"], tmp_path, clock,
        lambda t: events.extend((t, event) for event in follower.poll()), range(0, 2921, 5),
    )  # fmt: skip

    old, new = dict.fromkeys(event.file for t, event in events)
    assert {event.file for t, event in events if t > 960} == {new}
    (crash,) = [(t, event) for t, event in events if event.event.event == "error"]
    assert crash[1].file == old
    assert 900 < crash[0] <= 960
    assert last_step(events, 2915) == 990


def test_every_phase_of_a_slow_healthy_run_is_read_with_the_users_patterns(shared: Path, tmp_path: Path) -> None:
    script = case(shared, "V07")
    config = script["config"]
    names = {"eval": "evaluation"}
    patterns = LogPatterns.model_validate(
        {
            "step": config["step_pattern"],
            "finished": config["end_pattern"],
            "phases": [
                {"name": names.get(p["name"], p["name"]), "start": p["begin"], "end": p["end"]}
                for p in config["phases"]
            ],
        }
    )
    clock = FakeClock()
    follower = LogFollower([LogConfig(path=f"{tmp_path}/train.log", patterns=patterns)], "n1", None, clock)
    events: list[tuple[float, FollowedEvent]] = []
    play(
        script["input"]["ops"], tmp_path, clock,
        lambda t: events.extend((t, event) for event in follower.poll()), range(0, 9901, 10),
    )  # fmt: skip

    assert last_step(events, 9605) == 950
    edges = [(e.event.phase, e.event.edge) for _, e in events if e.event.event == "phase" and e.event.format == "user"]
    assert edges == [
        ("checkpoint", "start"), ("checkpoint", "end"), ("evaluation", "start"), ("evaluation", "end"),
        ("finished", "start"),
    ]  # fmt: skip
