from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from alerts.incidents import Incident
from alerts.lifecycle import acknowledge, close, snooze
from alerts.policy import AlertPolicy, ChannelTraits, Decision, Escalation, Match, Route, Silence, decide
from detectors.verdict import Severity, Subject
from tests.alerts.incident_samples import T0, Life, clear, finding, fires, gpu_finding

PAGER = ChannelTraits(keeps_state=True, escalates=True)
CHAT = ChannelTraits()


class Told:
    """Incidents and decisions in step, as the desk keeps them."""

    def __init__(self, channels: dict[str, ChannelTraits] | None = None, **policy: Any) -> None:
        self.policy = AlertPolicy(channels=channels or {"oncall": PAGER, "team": CHAT}, **policy)
        self.life = Life(resolve_after_seconds=0)
        self.told: dict[str, Any] = {}
        self.last = Decision((), (), {})

    def at(self, seconds: float, *judged: Any) -> list[tuple[str, str, str]]:
        self.life.at(seconds, *judged)
        return self.decide(seconds)

    def decide(self, seconds: float) -> list[tuple[str, str, str]]:
        self.last = decide(self.life.incidents, self.told, self.policy, T0 + seconds)
        self.told = self.last.told
        return [(one.channel, one.kind, one.dedup_key) for one in self.last.intents]

    def change(self, key: str, incident: Incident) -> None:
        self.life.incidents[key] = incident

    @property
    def silent(self) -> dict[str, str]:
        return {one.channel: one.reason for one in self.last.silent}


KEY = "tr7/stall"


def test_without_routes_everybody_hears_of_it_once_and_of_its_end() -> None:
    desk = Told()
    assert desk.at(0, fires(finding())) == [("oncall", "opened", KEY), ("team", "opened", KEY)]
    assert desk.at(10, fires(finding())) == []
    assert desk.at(20, clear()) == [("oncall", "resolved", KEY), ("team", "resolved", KEY)]
    assert desk.at(30, clear()) == []


@pytest.mark.parametrize(
    ("why", "route", "hears"),
    [
        ("severe enough", Route(to=("team",), severity=Severity.CRITICAL), True),
        ("its family is named", Route(to=("team",), match=Match(signatures=("stall",))), True),
        ("its signature fits a pattern", Route(to=("team",), match=Match(signatures=("*deadlock",))), True),
        ("another run", Route(to=("team",), match=Match(runs=("prod-*",))), False),
        ("a node is asked for and it has none", Route(to=("team",), match=Match(nodes=("n*",))), False),
    ],
)
def test_a_route_picks_by_severity_and_names(why: str, route: Route, hears: bool) -> None:
    desk = Told(routes=(route,))
    assert bool(desk.at(0, fires(finding()))) is hears, why


def test_suspects_and_detectors_on_trial_are_never_sent_and_the_reason_is_kept() -> None:
    desk = Told()
    assert desk.at(0, fires(finding(stage="suspect"))) == []
    assert desk.silent["oncall"] == "only suspected"
    assert desk.at(10, fires(finding("other", family="other"), mode="shadow"), clear()) == []
    assert desk.silent["oncall"] == "on trial"


def test_only_who_was_told_hears_of_the_end() -> None:
    desk = Told(routes=(Route(to=("oncall",), severity=Severity.CRITICAL), Route(to=("team",))))
    mild = finding(severity=Severity.WARNING)
    assert desk.at(0, fires(mild)) == [("team", "opened", KEY)]
    assert desk.at(10, clear()) == [("team", "resolved", KEY)]


def test_a_raise_uses_a_second_key_at_a_pager_and_both_are_resolved() -> None:
    desk = Told()
    desk.at(0, fires(finding(severity=Severity.WARNING)))
    assert desk.at(10, fires(finding())) == [("oncall", "escalated", f"{KEY}/critical"), ("team", "escalated", KEY)]
    assert desk.at(20, clear()) == [
        ("oncall", "resolved", KEY), ("oncall", "resolved", f"{KEY}/critical"), ("team", "resolved", KEY),
    ]  # fmt: skip


def test_a_sharper_signature_is_an_update_under_the_same_key() -> None:
    desk = Told()
    desk.at(0, fires(finding("busy_stall", precision=20)))
    assert desk.at(10, fires(finding())) == [("oncall", "updated", KEY), ("team", "updated", KEY)]
    assert desk.at(20, fires(finding())) == []


def test_a_crash_waits_for_the_restart_that_makes_it_moot() -> None:
    desk = Told()
    crash = finding("crash", family="crash", restart_hold_seconds=120)
    assert desk.at(0, fires(crash)) == []
    assert desk.silent["oncall"] == "waits for a restart that would make it moot"
    assert desk.at(110, fires(crash)) == []
    assert desk.at(120, fires(crash)) != []
    other = Told()
    other.at(0, fires(crash))
    assert other.at(60, clear("crash", "crash")) == []


def test_reminders_go_on_until_acknowledged_and_never_to_a_pager_that_escalates() -> None:
    desk = Told(reminder_seconds=3600)
    desk.at(0, fires(finding()))
    assert desk.at(3600, fires(finding())) == [("team", "reminder", KEY)]
    assert desk.at(3700, fires(finding())) == []
    desk.change(KEY, acknowledge(desk.life.incidents[KEY], "ada", T0 + 3800).incident)
    assert desk.decide(3800) == [("oncall", "acknowledged", KEY)]
    assert desk.at(9000, fires(finding())) == []


def test_an_acknowledged_incident_that_becomes_worse_is_told() -> None:
    desk = Told()
    desk.at(0, fires(finding(severity=Severity.WARNING)))
    desk.change(KEY, acknowledge(desk.life.incidents[KEY], "ada", T0 + 5).incident)
    desk.decide(5)
    assert ("oncall", "escalated", f"{KEY}/critical") in desk.at(10, fires(finding()))


def test_further_channels_join_when_nobody_acknowledges() -> None:
    boss = Escalation(after_seconds=900, to=("boss",))
    channels = {"team": CHAT, "boss": CHAT}
    desk = Told(channels, routes=(Route(to=("team",)),), escalations=(boss,))
    assert desk.at(0, fires(finding())) == [("team", "opened", KEY)]
    assert desk.at(890, fires(finding())) == []
    assert desk.at(900, fires(finding())) == [("boss", "escalated", KEY)]
    assert sorted(desk.at(910, clear())) == [("boss", "resolved", KEY), ("team", "resolved", KEY)]


def test_what_begins_in_a_silence_and_still_holds_at_its_end_is_told_then() -> None:
    window = Silence(name="move", from_at=T0 - 10, until_at=T0 + 100, match=Match(runs=("tr*",)))
    desk = Told(silences=(window,))
    assert desk.at(0, fires(finding())) == []
    assert desk.silent["team"].startswith("silence 'move' until")
    assert desk.at(100, fires(finding())) != []


def test_a_silence_that_begins_later_also_stops_reminders_but_not_the_end() -> None:
    desk = Told({"team": CHAT}, reminder_seconds=60)
    desk.at(0, fires(finding()))
    desk.change(KEY, snooze(desk.life.incidents[KEY], T0 + 500, "ada", T0 + 5).incident)
    assert desk.at(100, fires(finding())) == []
    assert desk.at(200, clear()) == [("team", "resolved", KEY)]


def test_one_closed_by_hand_stays_quiet_until_it_was_clear_or_became_worse() -> None:
    desk = Told({"team": CHAT})
    mild = finding(severity=Severity.WARNING)
    desk.at(0, fires(mild))
    desk.change(KEY, close(desk.life.incidents[KEY], "false alarm", "ada", T0 + 5).incident)
    assert desk.decide(5) == [("team", "resolved", KEY)]
    assert desk.at(10, fires(mild)) == []
    assert desk.at(20, fires(finding())) == [("team", "opened", KEY)]


def test_news_is_told_once_and_leaves_nothing_open_at_a_pager() -> None:
    desk = Told()
    done = fires(finding("completed", family="", severity=Severity.INFO, notice=True))
    key = "tr7/completed"
    assert desk.at(0, done) == [
        ("oncall", "opened", key), ("oncall", "resolved", key), ("team", "opened", key),
    ]  # fmt: skip
    assert desk.at(10, done) == []
    assert desk.at(90_000, done) == []


def test_a_rack_that_goes_dark_is_one_page_with_the_list_and_one_end() -> None:
    desk = Told({"oncall": PAGER}, group_wait_seconds=20)
    rack = [finding("node_unreachable", family="", subject=Subject(run="tr7", node=f"n{i:02d}")) for i in range(40)]
    assert desk.at(0, fires(*rack[:20])) == []
    assert desk.at(10, fires(*rack)) == []
    (page,) = desk.at(20, fires(*rack))
    assert len(desk.last.intents[0].members) == 40
    assert desk.at(30, fires(*rack[:10])) == []
    assert desk.at(40, clear("node_unreachable", "node_unreachable")) == [("oncall", "resolved", page[2])]


def test_a_dead_node_hushes_its_gpus_and_a_deadlock_the_throughput() -> None:
    desk = Told({"oncall": PAGER}, group_wait_seconds=0)
    dead = finding("node_unreachable", family="", subject=Subject(run="tr7", node="n3"))
    slow = finding("throughput_drop", family="", severity=Severity.WARNING)
    told = desk.at(0, fires(dead), fires(gpu_finding("n3")), fires(gpu_finding("n4")), fires(finding()), fires(slow))
    assert sorted(key for _, _, key in told) == ["n3/node_unreachable", "n4/gpu_lost/GPU-3", KEY]
    assert {one.reason for one in desk.last.silent} == {"n3/node_unreachable says it already", f"{KEY} says it already"}


def test_ten_thousand_findings_at_once_are_a_handful_of_pages() -> None:
    desk = Told({"oncall": PAGER}, group_wait_seconds=0)
    many = [
        finding(f"kind{i % 50}", family="", subject=Subject(run=f"run{i % 40}", node=f"n{i}")) for i in range(10_000)
    ]
    told = desk.at(0, *(fires(one, run=one.subject.run) for one in many))
    assert 1 <= len(told) <= 8
    assert sum(max(1, len(one.members)) for one in desk.last.intents) == 10_000


def test_a_slow_drip_of_new_incidents_is_slowed_to_one_page_a_minute() -> None:
    desk = Told({"team": CHAT}, pages_per_10_minutes=5)
    pages = []
    found: list[Any] = []
    for number in range(60):
        found.append(fires(finding(f"kind{number}", family="")))
        pages += [number * 10] * len(desk.at(number * 10, *found))
    assert len(pages) <= 5 + 10
    told = {key for key, channels in desk.told.items() if "team" in channels}
    assert len(told) >= 54  # nothing is lost, it waits at most a minute


def test_a_channel_does_not_report_its_own_failure_even_if_only_it_is_routed() -> None:
    desk = Told(routes=(Route(to=("team",)),))
    failed = finding(
        "delivery_failed", family="delivery_failed.team", subject=Subject(), severity=Severity.WARNING,
        evidence={"channel": "team"},
    )  # fmt: skip
    assert [channel for channel, _, _ in desk.at(0, fires(failed, run="watchdog"))] == ["oncall"]


def test_what_another_process_was_told_is_not_told_again_after_a_restart() -> None:
    desk = Told()
    desk.at(0, fires(finding()))
    again = Told()
    again.life.incidents, again.told = dict(desk.life.incidents), desk.told
    assert again.at(10, fires(finding())) == []
    again.told = {KEY: {name: replace(told, first_at=T0) for name, told in desk.told[KEY].items()}}
    assert len(again.at(20, clear())) == 2
