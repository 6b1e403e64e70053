"""Whatever fails on the way: every incident is told, in order, none is ended wrongly, none is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from alerts.notification import Rejected, Retry
from tests.alerts.delivery_samples import PAGER, House, Scripted
from tests.alerts.fault_cases import FAULTS, Fault, play
from tests.alerts.incident_samples import clear, finding, fires
from watcher.clock import FakeClock


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_every_incident_is_told_in_order_and_none_is_lost_or_ended_wrongly(fault: Fault, tmp_path: Path) -> None:
    report = play(fault, tmp_path, incidents=16)
    assert report.lost == []
    assert report.wrongly_resolved == []
    assert report.out_of_order == []
    assert report.still_open == report.should_be_open
    assert report.late_seconds <= 600


@pytest.mark.parametrize("restart", [False, True])
def test_a_page_that_was_refused_arrives_once_the_key_is_mended(tmp_path: Path, restart: bool) -> None:
    clock = FakeClock()
    pager = Scripted(clock)
    pager.answer = lambda notification: Rejected("HTTP 401")
    house = House(tmp_path, clock, {"oncall": (pager, PAGER)})
    house.run(1200, [fires(finding())])
    assert [one.incident.family for _, one in pager.seen] == ["stall"] * 2
    pager.answer = None
    if restart:
        house.kill()
        house.start()
    house.run(3700, [fires(finding())])
    house.run(60, [clear()])
    told = [(one.kind, one.dedup_key) for _, one in pager.seen[2:] if one.incident.family == "stall"]
    assert told == [("opened", "tr7/stall"), ("resolved", "tr7/stall")]


def test_a_pager_that_is_away_for_two_days_hears_of_what_is_still_open(tmp_path: Path) -> None:
    clock = FakeClock()
    pager = Scripted(clock)
    pager.answer = lambda notification: Retry("cannot connect")
    house = House(tmp_path, clock, {"oncall": (pager, PAGER)})
    house.run(48 * 3600, [fires(finding())], every=60)
    pager.answer = None
    before = len(pager.seen)
    house.run(2 * 3600, [fires(finding())], every=60)
    assert [(one.kind, one.dedup_key) for _, one in pager.seen[before:]] == [("opened", "tr7/stall")]


def test_nobody_hears_is_known_while_it_lasts_and_not_for_ever_after(tmp_path: Path) -> None:
    clock = FakeClock()
    pagers = [Scripted(clock), Scripted(clock)]
    house = House(tmp_path, clock, {"oncall": (pagers[0], PAGER), "spare": (pagers[1], PAGER)})
    assert not house.outbox.nobody_hears(clock.now)  # nothing was sent yet
    pagers[0].answer = pagers[1].answer = lambda notification: Rejected("HTTP 401")
    house.run(600, [fires(finding())])
    assert house.outbox.nobody_hears(clock.now)
    house.run(60, [clear()])
    clock.advance(3 * 3600)
    assert not house.outbox.nobody_hears(clock.now)
    pagers[0].answer = None
    house.run(600, [fires(finding())])
    assert not house.outbox.nobody_hears(clock.now)
