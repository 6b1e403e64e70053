"""The daemon's cycle: what it does after a jump of the clock, when a detector raises, and when it is late."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from alerts.desk import AlertDesk
from alerts.outbox import Outbox
from alerts.policy import AlertPolicy
from detectors.registry import Plugin, load_plugins
from tests.support.runs import SPIN, START, WORK, ScriptedRun
from watcher.clock import FakeClock
from watcher.daemon.answer import Answer
from watcher.daemon.app import Daemon
from watcher.daemon.evaluate import Active, build_detectors
from watcher.daemon.lateness import lateness
from watcher.daemon.pipeline import WatchedRun
from watcher.daemon.store import Store


class Script:
    """Stands where the agents are asked."""

    def __init__(self, run: ScriptedRun, clock: FakeClock) -> None:
        self.run, self.clock = run, clock
        self.cost_seconds = 0.0

    async def ask_all(self, note: Any = None) -> Sequence[Answer]:
        self.clock.advance(self.cost_seconds)
        self.run.t = self.clock.now - START
        due = [(t, event) for t, event, _ in self.run._said if t <= self.run.t]
        self.run._said = [item for item in self.run._said if item[0] > self.run.t]
        return [self.run.answer(node, due if node == self.run.nodes[0] else []) for node in self.run.nodes]


class House:
    def __init__(self, folder: Path, detectors: Sequence[Active] | None = None) -> None:
        self.clock = FakeClock(START)
        self.run = ScriptedRun(nodes=("n1",))
        self.store = Store(folder / "x.db")
        desk = AlertDesk(self.store, Outbox([], self.clock, self.store), AlertPolicy(channels={}), self.clock)
        watched = WatchedRun(self.run.fold, detectors or build_detectors(load_plugins()))
        self.agents = Script(self.run, self.clock)
        self.daemon = Daemon(
            [watched], [self.agents], desk, (), self.clock, 10.0, save=lambda runs: None, ledger=self.run.fold.ledger
        )  # type: ignore[arg-type]

    def cycles(self, count: int, seconds: float = 10.0) -> None:
        async def play() -> None:
            for _ in range(count):
                self.clock.advance(seconds)
                await self.daemon.tick()

        asyncio.run(play())

    @property
    def open_signatures(self) -> set[str]:
        return {i.signature for i in self.daemon.desk.incidents.values() if i.state == "open"}


@pytest.fixture
def house(tmp_path):
    one = House(tmp_path)
    yield one
    one.store.close()


def test_a_hang_is_opened_by_full_cycles(house):
    house.run.steps(60, 900, 10, 1)
    house.run.level = lambda node, index, t: WORK if t <= 900 else SPIN
    house.cycles(120)
    assert house.open_signatures == {"low_power_deadlock"}


def test_after_a_suspended_hour_it_looks_again_before_it_judges(house):
    house.run.steps(60, 900, 10, 1)
    house.cycles(88)
    house.run.steps(4480, 6000, 10, 500)
    house.cycles(1, seconds=3600)
    assert house.daemon.health.skipped_count == 1
    assert house.open_signatures == set()
    house.cycles(5)
    assert house.open_signatures == set()


def test_cycles_that_are_always_slow_are_judged_all_the_same_and_said(house):
    house.run.steps(60, 900, 10, 1)
    house.run.level = lambda node, index, t: WORK if t <= 900 else SPIN
    house.agents.cost_seconds = 100.0
    house.cycles(40)
    assert "watchdog_late" in house.open_signatures
    assert house.daemon.health.ticks_count - house.daemon.health.skipped_count >= 20


def test_a_detector_that_raises_is_told_once_and_stops_nobody(tmp_path):
    class Broken:
        def check(self, frame):
            raise RuntimeError("boom")

    broken = Active(Plugin("broken", dict, lambda config: Broken()), Broken())
    house = House(tmp_path, (*build_detectors(load_plugins()), broken))
    house.run.steps(60, 900, 10, 1)
    house.run.level = lambda node, index, t: WORK if t <= 900 else SPIN
    house.cycles(120)
    assert house.open_signatures == {"detector_failed", "low_power_deadlock"}
    assert house.daemon.evaluator.failures["broken"] == 120
    house.store.close()


def test_a_cycle_that_fails_is_counted_and_the_next_one_comes(house):
    async def fail(note: Any = None) -> Sequence[Answer]:
        raise OSError("no more files")

    asks = house.agents.ask_all
    house.agents.ask_all = fail
    house.cycles(3)
    assert house.daemon.health.errors_count == 3
    assert "no more files" in house.daemon.health.error
    assert not house.daemon.health.is_live(house.clock.now + 100, 10.0)
    house.agents.ask_all = asks
    house.cycles(1)
    assert house.daemon.health.error is None


def test_a_source_that_fails_is_said_and_the_nodes_of_the_others_are_judged(house):
    class Broken:
        async def ask_all(self, note: Any = None) -> Sequence[Answer]:
            raise RuntimeError("no idea what this is")

    house.daemon.sources = [Broken(), *house.daemon.sources]
    house.run.steps(60, 900, 10, 1)
    house.run.level = lambda node, index, t: WORK if t <= 900 else SPIN
    house.cycles(120)
    assert "low_power_deadlock" in house.open_signatures
    assert "no idea what this is" in house.daemon.health.error
    assert house.daemon.health.last_good_cycle_at is None, "nobody outside may believe that all is well"


def test_a_run_whose_data_cannot_be_taken_in_is_said_and_stops_neither_other_runs_nor_itself(tmp_path):
    house = House(tmp_path)
    sick = ScriptedRun(nodes=("n1",))
    other = WatchedRun(sick.fold, build_detectors(load_plugins()))
    sick.fold.settings = replace(sick.fold.settings, name="sick")
    house.daemon.runs = [other, *house.daemon.runs]
    observe = sick.fold.observe

    def refuse(answer: Answer) -> None:
        raise RuntimeError("no idea what this is")

    sick.fold.observe = refuse
    house.run.steps(60, 900, 10, 1)
    house.run.level = lambda node, index, t: WORK if t <= 900 else SPIN
    house.cycles(120)
    assert {(i.run, i.signature) for i in house.daemon.desk.incidents.values() if i.state == "open"} >= {
        ("sick", "watching_failed"),
        ("train", "low_power_deadlock"),
    }
    assert house.daemon.health.last_good_cycle_at is None, "nobody outside may believe that all is well"
    assert house.daemon.health.errors_count == 0
    sick.fold.observe = observe
    house.cycles(10)
    assert "watching_failed" not in house.open_signatures
    assert house.daemon.health.last_good_cycle_at is not None
    house.store.close()


@pytest.mark.parametrize(("seconds", "late"), [(0.0, False), (29.0, False), (31.0, True)])
def test_lateness(seconds, late):
    assert bool(getattr(lateness(seconds, 10.0).verdict, "findings", ())) == late


class Listener:
    """Stands where somebody outside listens."""

    last_success_at = None

    def __init__(self) -> None:
        self.heard: list[str] = []

    def ping_when_due(self, now: float, monotonic: float) -> None:
        self.heard.append("well")

    def fail_when_due(self, reason: str, now: float, monotonic: float) -> None:
        self.heard.append(reason)


def test_outside_hears_that_all_is_well_and_after_a_while_what_is_wrong(house: House) -> None:
    outside = Listener()
    house.daemon.dead_man = outside  # type: ignore[assignment]
    house.cycles(2)
    assert outside.heard == ["well", "well"]
    works, house.agents.ask_all = house.agents.ask_all, _raises  # type: ignore[method-assign]
    house.cycles(6)
    assert outside.heard == ["well", "well"]
    house.cycles(6)
    assert outside.heard[-1].startswith("cycles fail: ")
    house.agents.ask_all = works  # type: ignore[method-assign]
    house.cycles(2)  # it looks again first: that was long ago
    assert outside.heard[-1] == "well"


def test_a_daemon_that_reaches_nobody_is_not_well(house: House) -> None:
    outside = Listener()
    house.daemon.dead_man = outside  # type: ignore[assignment]
    house.daemon.desk.outbox.nobody_hears = lambda now: True  # type: ignore[method-assign]
    house.cycles(12)
    assert set(outside.heard) == {"no channel takes pages"}


async def _raises(note: Any = None) -> Sequence[Answer]:
    raise RuntimeError("boom")
