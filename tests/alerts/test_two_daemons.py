"""Two daemons that watch the same runs and know nothing of each other: one incident at the pager."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from alerts.channels.pagerduty import PagerDuty, PagerDutySection
from alerts.incidents import Judged
from alerts.secret import Secret
from detectors.verdict import Severity, Subject, firing
from tests.alerts.delivery_samples import PAGER, House
from tests.alerts.fault_cases import Trouble, troubles
from tests.alerts.http_script import ScriptedServer
from tests.alerts.incident_samples import T0, clear, finding, fires, gpu_finding, judged
from tests.support.pager import Pager
from watcher.clock import FakeClock

LATER_SECONDS = 7.0  # of the second daemon's cycles


class Pair:
    """Cycles of both, seven seconds apart; a pager that keeps open keys."""

    def __init__(self, folder: Path, server: ScriptedServer) -> None:
        self.clock = FakeClock(T0)
        self.pager = Pager(lambda: self.clock.now - T0)
        server.judge_with(self.pager.answer)
        self.houses = [self._house(folder / name, server) for name in ("first", "second")]

    def _house(self, folder: Path, server: ScriptedServer) -> House:
        folder.mkdir()
        channel = PagerDuty(PagerDutySection(routing_key=Secret("R" * 32), url=server.url("/v2/enqueue")))
        return House(folder, self.clock, {"oncall": (channel, PAGER)})

    def cycle(self, at: float, *looks: Judged, only: int | None = None) -> None:
        for number, house in enumerate(self.houses):
            self.clock.now = T0 + at + number * LATER_SECONDS
            if only in (None, number):
                house.tick(*looks)

    def run(self, begin: float, end: float, *looks: Judged, only: int | None = None) -> None:
        at = begin
        while at < end:
            self.cycle(at, *looks, only=only)
            at += 10.0

    def opened(self) -> list[str]:
        """The key of each incident that was opened at the pager: a repeat of an open key opens none."""
        held: set[str] = set()
        opened = []
        for _, action, key in self.pager.taken:
            if action == "trigger" and key not in held:
                opened.append(key)
            (held.add if action == "trigger" else held.discard)(key)
        return opened


@pytest.fixture
def pair(tmp_path: Path, server: ScriptedServer) -> Pair:
    return Pair(tmp_path, server)


def test_a_hang_that_gets_worse_is_one_incident_and_one_raise(pair: Pair) -> None:
    pair.run(0, 60, fires(finding(severity=Severity.WARNING)))
    pair.run(60, 120, fires(finding()))
    pair.run(120, 200, clear())
    assert pair.opened() == ["tr7/stall", "tr7/stall/critical"]
    assert pair.pager.open == set()


def test_a_rack_that_goes_dark_is_one_incident_though_they_do_not_see_the_same_nodes_at_first(pair: Pair) -> None:
    dark = [gpu_finding(f"n{number}", gpu=None) for number in range(1, 5)]
    pair.cycle(0, fires(*dark[:3]), only=0)
    pair.cycle(0, fires(*dark), only=1)
    pair.run(10, 60, fires(*dark[:3]))
    pair.run(60, 120, fires(*dark[1:3]))
    pair.run(120, 200, clear("gpu_lost", "gpu_lost"))
    assert len(pair.opened()) == 1
    assert pair.pager.open == set()


def test_a_node_that_falls_out_again_while_its_rack_is_dark_is_not_swallowed(pair: Pair) -> None:
    dark = [gpu_finding(f"n{number}", gpu=None) for number in range(1, 7)]
    pair.run(0, 60, fires(*dark[:3]))
    pair.run(60, 800, fires(*dark[1:3]))
    pair.run(800, 860, fires(*dark))
    assert len(pair.opened()) == 2
    pair.run(860, 1600, clear("gpu_lost", "gpu_lost"))
    assert pair.pager.open == set()


def test_when_one_of_them_dies_the_other_ends_what_both_had_told(pair: Pair) -> None:
    pair.run(0, 60, fires(finding()))
    pair.run(60, 300, fires(finding()), only=1)
    assert pair.pager.open == {"tr7/stall"}
    pair.run(300, 400, clear(), only=1)
    assert pair.pager.open == set()
    pair.run(400, 500, clear())
    assert pair.opened() == ["tr7/stall"]


def test_twelve_incidents_are_twelve_at_the_pager_and_end_once(pair: Pair) -> None:
    script = troubles(random.Random(3), 12)
    for step in range(900):
        pair.cycle(10.0 * step, *(_look(one, 10.0 * step) for one in script))
    ours = [key for key in pair.opened() if "/group/" not in key]
    assert len(ours) == len(set(ours))
    assert pair.pager.open == {one.key for one in script if one.end is None}


def _look(one: Trouble, at: float) -> Judged:
    found = [finding(subject=Subject(run=one.run))] if one.is_on(at) else []
    return judged(firing(found), run=one.run)
