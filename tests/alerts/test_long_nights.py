"""Nights that last: outages of days, disks that stay full, groups that one click acknowledges, pages hard to write."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from alerts.notification import Retry
from alerts.policy import ChannelTraits, Escalation, Route
from detectors.verdict import Finding, Severity
from tests.alerts.delivery_samples import CHAT, PAGER, House, Scripted
from tests.alerts.fault_cases import SteppedClock
from tests.alerts.incident_samples import clear, finding, fires, gpu_finding
from watcher.clock import FakeClock

DAY_SECONDS = 86_400.0
ONCALL = (Route(to=("oncall",)),)


def _house(folder: Path, **rest: Any) -> tuple[House, Scripted, Scripted]:
    clock = FakeClock()
    pager, chat = Scripted(clock), Scripted(clock)
    return House(folder, clock, {"oncall": (pager, PAGER), "team": (chat, CHAT)}, **rest), pager, chat


def _down(message: object) -> Retry:
    return Retry("down")


def test_a_disk_that_was_full_for_the_whole_life_of_an_incident_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, _, _ = _house(tmp_path)

    def full(*rows: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(house.store, "_put_transitions", full)
        house.tick(fires(finding()))
        house.run(800, [clear()])
        house.tick(fires(finding()))
        assert "full" in str(house.desk.store_error)
    house.tick(fires(finding()))
    assert house.desk.store_error is None
    assert [one["event"] for one in house.store.transitions("tr7/stall")] == ["opened", "resolved", "opened"]
    assert len(house.store.history("tr7/stall")) == 2


def test_pages_that_wait_behind_a_dead_channel_reach_the_fallback_too(tmp_path: Path) -> None:
    house, pager, chat = _house(tmp_path, fallbacks={"oncall": "team"}, routes=ONCALL)
    pager.answer = _down
    began_at = house.clock.now
    house.run(900, [fires(*[finding(f"trouble_{i}", family=f"trouble_{i}") for i in range(8)])])
    told = {one.dedup_key for at, one in chat.seen if at <= began_at + 660 and one.incident.run == "tr7"}
    assert told == {f"tr7/trouble_{i}" for i in range(8)}


@pytest.mark.parametrize("how", ["an outage of three days", "a clock that is set five days ahead"])
def test_a_critical_page_is_not_given_up_while_its_trouble_lasts(how: str, tmp_path: Path) -> None:
    house, pager, _ = _house(tmp_path, routes=ONCALL)
    pager.answer = _down
    house.tick(fires(finding()))
    if how.startswith("a clock"):
        house.clock.now += 5 * DAY_SECONDS
        house.run(600, [fires(finding())])
    else:
        house.run(3 * DAY_SECONDS, [fires(finding())], every=120.0)
    pager.seen.clear()
    pager.answer = None
    house.run(900, [fires(finding())])
    house.run(60, [clear()])
    assert [(one.kind, one.dedup_key) for _, one in pager.seen] == [("opened", "tr7/stall"), ("resolved", "tr7/stall")]


def test_one_that_is_over_is_given_up_after_a_day_of_trying(tmp_path: Path) -> None:
    house, pager, _ = _house(tmp_path, routes=ONCALL)
    pager.answer = _down
    house.tick(fires(finding()))
    house.run(60, [clear()])
    house.run(1.2 * DAY_SECONDS, [clear()], every=120.0)
    assert [one.pending for one in house.outbox.health() if one.channel == "oncall"] == [0]


def test_who_acknowledges_a_page_of_many_is_not_paged_about_the_others_of_it(tmp_path: Path) -> None:
    rule = Escalation(after_seconds=900, to=("team",))
    house, pager, chat = _house(tmp_path, escalations=(rule,), routes=ONCALL)
    rack = [fires(*[gpu_finding(f"n{i}") for i in range(6)]), fires(finding())]
    house.run(60, rack)
    group = next(one for _, one in pager.seen if one.members)
    house.desk.acknowledge(group.incident.key, "ada")
    house.run(1200, rack)
    assert {one.acknowledged_by for one in house.desk.incidents.values() if one.family == "gpu_lost"} == {"ada"}
    assert [one.incident.key for _, one in chat.seen] == ["tr7/stall"]


def test_news_that_was_over_while_the_channel_had_its_share_is_told_later(tmp_path: Path) -> None:
    house, pager, _ = _house(tmp_path, pages_per_10_minutes=1)
    goes_on = fires(finding())
    news = fires(finding("completed", family="completed", notice=True, severity=Severity.INFO))
    house.tick(goes_on)
    house.clock.advance(5)
    house.tick(goes_on, news)
    house.run(120, [goes_on, clear("completed", "completed")])
    assert [one.dedup_key for _, one in pager.seen] == ["tr7/stall", "tr7/completed", "tr7/completed"]


@pytest.mark.parametrize(
    "changes",
    [
        {"evidence": {"steps": 10**5000}}, {"evidence": {"seen_at": 1e300}}, {"evidence": {"hold_seconds": 1e300}},
        {"since_at": 1e300}, {"since_at": float("nan")}, {"since_at": float("-inf")},
    ],
)  # fmt: skip
def test_no_number_of_a_detector_keeps_a_page_from_going_out(changes: dict[str, Any], tmp_path: Path) -> None:
    house, pager, _ = _house(tmp_path)
    house.tick(fires(finding(**changes)))
    assert pager.kinds == ["opened"]
    assert house.desk.store_error is None
    house.kill()
    house.start()
    assert "tr7/stall" in house.desk.incidents


def test_a_page_that_cannot_be_written_goes_out_without_its_details(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(evidence: dict[str, Any]) -> list[str]:
        if evidence:
            raise ZeroDivisionError
        return []

    monkeypatch.setattr("alerts.render.evidence_lines", broken)
    house, pager, _ = _house(tmp_path)
    house.tick(fires(finding(evidence={"power_watts": 80})))
    assert "no progress for 4 m" in pager.seen[0][1].title
    assert house.warnings == ["page of tr7/stall goes out without its details: ZeroDivisionError"] * 2


def test_two_incidents_that_explain_each_other_are_both_told(tmp_path: Path) -> None:
    house, pager, _ = _house(tmp_path)
    one = finding("one", family="one", explained_by=("tr7/two",))
    two = finding("two", family="two", explained_by=("tr7/one",))
    house.tick(fires(one), fires(two))
    assert {said.dedup_key for _, said in pager.seen} == {"tr7/one", "tr7/two"}


FORGETS = ChannelTraits(keeps_state=True, escalates=True, resend_seconds=60)
HOURS_BACK = -36_000.0


def _stepped(folder: Path, **rest: Any) -> tuple[House, Scripted, Scripted, SteppedClock]:
    clock = SteppedClock()
    pager, chat = Scripted(clock), Scripted(clock)
    return House(folder, clock, {"oncall": (pager, FORGETS), "team": (chat, CHAT)}, **rest), pager, chat, clock


@pytest.mark.parametrize(
    "found", [gpu_finding(), finding(), finding(restart_hold_seconds=300)], ids=["in a group", "alone", "held"]
)
def test_what_began_just_before_the_clock_was_set_back_is_told(found: Finding, tmp_path: Path) -> None:
    house, pager, _, clock = _stepped(tmp_path)
    house.tick(fires(found), deliver=False)
    clock.step = HOURS_BACK
    house.run(60, [fires(found)])
    assert pager.kinds[:1] == ["opened"]


def test_a_channel_that_had_its_share_is_told_more_after_the_clock_was_set_back(tmp_path: Path) -> None:
    house, _, chat, clock = _stepped(tmp_path, pages_per_10_minutes=2)
    house.tick(fires(finding("a", family="a"), finding("b", family="b")))
    clock.step = HOURS_BACK
    house.run(120, [fires(*[finding(name, family=name) for name in "abc"])])
    assert {one.dedup_key for _, one in chat.seen} == {"tr7/a", "tr7/b", "tr7/c"}


def test_repetitions_reminders_and_escalation_go_on_after_the_clock_was_set_back(tmp_path: Path) -> None:
    rule = Escalation(after_seconds=600, to=("team",))
    house, pager, chat, clock = _stepped(tmp_path, escalations=(rule,), routes=ONCALL, reminder_seconds=3600)
    house.tick(fires(finding()))
    clock.step = HOURS_BACK
    house.run(7200, [fires(finding())], every=30)
    assert len(pager.seen) > 100
    assert chat.kinds[:2] == ["escalated", "reminder"]
