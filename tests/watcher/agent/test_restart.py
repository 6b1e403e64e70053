"""An agent that is started anew: what it had read and nobody had fetched reaches the daemon; nothing counts twice."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from detectors.telemetry import SourceHealth
from watcher.agent.app import Agent
from watcher.agent.follow import LogFollower
from watcher.clock import FakeClock
from watcher.config.agent import AgentConfig
from watcher.daemon.answer import Answer
from watcher.daemon.fold import RunFold, RunSettings
from watcher.snapshot import dump_snapshot, parse_snapshot


class NoGpus:
    latest, replacements_count, reading_seconds = None, 0, None

    async def poll(self, deadline_seconds: float) -> None:
        return

    def health(self) -> SourceHealth:
        return SourceHealth(ok=False, kind="no_library")


class Node:
    """One log, an agent that follows it, a daemon that asks now and then."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, FakeClock()
        self.fold = RunFold(RunSettings(name="train", nodes=("n1",), interval_seconds=10))
        self.since = ""
        self.start()

    def start(self) -> None:
        config = AgentConfig.model_validate({"agent": {"node": "n1", "logs": [f"{self.folder}/train.log"]}}).agent
        follower = LogFollower(config.logs, "n1", self.folder / "positions.json", self.clock)
        self.agent = Agent(config, self.clock, NoGpus(), follower)

    def stop(self) -> None:
        self.agent.follower.close()

    def write(self, text: str) -> None:
        with (self.folder / "train.log").open("a") as file:
            file.write(text)

    def cycle(self) -> None:
        self.clock.advance(10)
        asyncio.run(self.agent.cycle())

    def ask(self) -> None:
        snapshot = parse_snapshot(json.loads(dump_snapshot(self.agent.snapshot(self.since))))
        self.since = f"{snapshot.stream}:{snapshot.next_seq}"
        self.fold.observe(Answer("n1", self.clock.time(), snapshot))

    @property
    def steps(self) -> list[int]:
        return [record.step for record in self.fold.frame(self.clock.time()).progress.records]


@pytest.fixture
def node(tmp_path) -> Node:
    (tmp_path / "train.log").write_text("")
    node = Node(tmp_path)
    node.cycle()
    return node


@pytest.mark.parametrize("orderly", [True, False])
def test_what_was_read_and_not_fetched_before_a_restart_is_known_after_it_and_counts_once(node, orderly):
    for step in (1, 2, 3):
        node.write(f"step={step} loss=2.1\n")
        node.cycle()
    node.ask()
    node.write("step=4 loss=2.1\n")
    node.cycle()  # and nobody asks
    if orderly:
        node.stop()
    node.write("step=5 loss=2.1\n")
    node.start()
    node.cycle()
    node.ask()
    assert node.steps == [1, 2, 3, 4, 5]
    assert node.agent.heard.last_step == 5
    node.write("step=6 loss=2.1\n")
    node.cycle()
    node.ask()
    assert node.steps == [1, 2, 3, 4, 5, 6]


def test_what_is_told_again_is_no_step_and_no_error_of_this_life(node):
    node.write("step=1 loss=2.1\nRuntimeError: CUDA error: an illegal memory access was encountered\n")
    node.cycle()
    node.cycle()
    node.cycle()
    counted = node.agent.heard.errors_count
    node.stop()
    node.start()
    node.cycle()
    assert counted == 1
    assert (node.agent.heard.steps_count, node.agent.heard.errors_count, node.agent.heard.last_step) == (0, 0, 1)
