"""A pager that resets, throttles, fails and refuses, and texts beyond its limits: over real HTTP, as the cases say."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from alerts.channels.pagerduty import PagerDuty, PagerDutySection
from alerts.incidents import Judged
from alerts.secret import Secret
from detectors.verdict import Subject
from tests.alerts.delivery_samples import CHAT, PAGER, House, Scripted
from tests.alerts.http_script import Answer, ScriptedServer
from tests.alerts.incident_samples import clear, finding, fires
from watcher.clock import FakeClock

KEY = "R0UTINGKEY0123456789abcdef012345"
ACCEPTED = Answer(202, '{"status": "success"}')
EVERY_SECONDS = 5.0


class Site:
    """A daemon's way of paging, a real server in PagerDuty's place, and a second channel that always works."""

    def __init__(self, folder: Path, server: ScriptedServer) -> None:
        self.clock, self.server = FakeClock(), server
        self.start = self.clock.now
        self.chat = Scripted(self.clock)
        pager = PagerDuty(PagerDutySection(routing_key=Secret(KEY), url=server.url("/v2/enqueue")))
        self.house = House(folder, self.clock, {"oncall": (pager, PAGER), "team": (self.chat, CHAT)})
        self.times: list[float] = []  # of each request

    def until(self, second: float, *looks: Judged) -> None:
        while self.clock.now - self.start < second:
            self.house.tick(*looks)
            self.times += [self.clock.now - self.start] * (len(self.server.requests) - len(self.times))
            self.clock.advance(EVERY_SECONDS)

    def asked(self, action: str) -> list[tuple[float, dict[str, Any]]]:
        bodies = zip(self.times, self.server.bodies(), strict=True)
        return [(at, body) for at, body in bodies if body["event_action"] == action]

    def failures_told_elsewhere(self) -> int:
        return len([one for _, one in self.chat.seen if one.incident.signature == "delivery_failed"])


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    server = ScriptedServer()
    yield Site(tmp_path, server)
    server.stop()


@pytest.fixture(scope="module")
def v12(shared: Path) -> dict[str, Any]:
    return json.loads((shared / "data/cases/V12_pagerduty_retry_and_resolve.json").read_text())


@pytest.fixture(scope="module")
def v13(shared: Path) -> dict[str, Any]:
    return json.loads((shared / "data/cases/V13_pagerduty_size_limits.json").read_text())


def answers(script: list[dict[str, Any]]) -> list[Answer]:
    return [
        Answer.reset()
        if one.get("net") == "connection_reset"
        else Answer(
            one["status"],
            one["body"] if isinstance(one["body"], str) else json.dumps(one["body"]),
            one.get("headers", {}),
        )
        for one in script
    ]


def expected(case: dict[str, Any], number: str) -> dict[str, Any]:
    return next(one for one in case["expect"] if one["id"] == number)


def play_v12(site: Site, case: dict[str, Any]) -> float:
    """Its two responses scripts, up to the end of the incident."""
    given = case["input"]["server"]
    site.server.script("trigger", *answers(given["trigger_responses"]))
    site.server.script("resolve", *answers(given["resolve_responses"]))
    site.server.script_forever(ACCEPTED)
    return float(case["input"]["stimulus"][1]["t"])


def test_v12_the_page_is_tried_until_it_is_taken_and_ended_when_allowed(
    site: Site, v12: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    end = play_v12(site, v12)
    site.until(end, fires(finding()))
    site.until(end + 600, clear())
    triggers, resolves = site.asked("trigger"), site.asked("resolve")
    assert len(triggers) == expected(v12, "E1")["count"]
    assert triggers[-1][0] <= expected(v12, "E2")["by_t"]
    gap = expected(v12, "E3")["between_attempts"]
    assert all(later - earlier >= gap for earlier, later in pairwise(site.times))
    assert len([at for at in site.times if at < 300]) <= 10
    assert len(resolves) == expected(v12, "E4")["count"]
    assert resolves[1][0] - resolves[0][0] >= expected(v12, "E4")["second_not_before_s"]
    assert len({body["dedup_key"] for body in site.server.bodies()}) == 1
    stored = b"".join(file.read_bytes() for file in site.house.folder.iterdir())
    assert KEY not in caplog.text + " ".join(site.house.warnings)
    assert KEY.encode() not in stored


def test_v12_a_short_life_is_never_ended_before_it_was_told(site: Site, v12: dict[str, Any]) -> None:
    play_v12(site, v12)
    site.until(20, fires(finding()))
    site.until(900, clear())
    actions = [body["event_action"] for body in site.server.bodies()]
    assert actions == sorted(actions, reverse=True)
    assert len(site.asked("trigger")) == len(v12["input"]["server"]["trigger_responses"])


def test_v12_a_daemon_killed_between_attempts_goes_on_with_the_same_key(site: Site, v12: dict[str, Any]) -> None:
    play_v12(site, v12)
    while len(site.server.requests) < 3:
        site.until(site.clock.now - site.start + EVERY_SECONDS, fires(finding()))
    site.house.kill()
    site.clock.advance(30)
    site.house.start()
    site.until(900, fires(finding()))
    assert len(site.asked("trigger")) == 4
    assert len({body["dedup_key"] for body in site.server.bodies()}) == 1


def test_v12_a_lost_reply_is_repeated_under_the_same_key(site: Site, v12: dict[str, Any]) -> None:
    play_v12(site, v12)
    script = answers(v12["input"]["server"]["trigger_responses"])[:3]
    site.server.script("trigger", *script, Answer.close(), ACCEPTED)
    site.until(900, fires(finding()))
    assert len(site.asked("trigger")) == 5
    assert len({body["dedup_key"] for body in site.server.bodies()}) == 1


def test_v12_an_outage_of_three_hours_is_told_once_elsewhere_and_the_page_follows_in_time(
    site: Site, v12: dict[str, Any]
) -> None:
    variants = {one["name"]: one["expect"] for one in v12["variants"]}
    within = variants["long_outage"][0]["within_s_after_recovery"]
    site.server.script_forever(Answer(503))
    site.until(3 * 3600, fires(finding()))
    before = len(site.server.requests)
    assert site.failures_told_elsewhere() == 1
    site.server.script_forever(ACCEPTED)
    site.until(3 * 3600 + within, fires(finding()))
    assert [body["event_action"] for body in site.server.bodies()[before:]] == ["trigger"]


def findings(case: dict[str, Any]) -> dict[str, Judged]:
    """Its findings by their name there."""
    made = {}
    for one in case["input"]["stimulus"]:
        if (given := one.get("finding")) is None:
            continue
        run, text = given["subject"], given.get("evidence_text", "many nodes")
        evidence: dict[str, Any] = {"text": text}
        if (many := given.get("evidence_list")) is not None:
            evidence = {"nodes": [many["item"].replace("%04d", f"{n:04d}") for n in range(many["count"])]}
        made[given["id"]] = fires(finding(subject=Subject(run=run), summary=text, evidence=evidence), run=run)
    return made


def _summary(event: dict[str, Any]) -> str:
    return str(event.get("payload", {}).get("summary", ""))


RULES: dict[str, Callable[[dict[str, Any], bytes], bool]] = {
    "len(payload.summary) > 1024 characters": lambda event, body: len(_summary(event)) > 1024,
    "len(dedup_key) > 255": lambda event, body: len(event["dedup_key"]) > 255,
    "body bytes > 524288": lambda event, body: len(body) > 524_288,
    "payload.severity not in critical,error,warning,info": lambda event, body: (
        event.get("payload", {}).get("severity", "info") not in ("critical", "error", "warning", "info")
    ),
}


def judge(case: dict[str, Any]) -> Callable[[bytes], Answer]:
    """What its server accepts."""
    rules = [one["if"] for one in case["input"]["server"]["validate"] if "if" in one and "UTF-8" not in one["if"]]

    def answer(body: bytes) -> Answer:
        event = json.loads(body.decode("utf-8"))
        return Answer(400) if any(RULES[rule](event, body) for rule in rules) else ACCEPTED

    return answer


def test_v13_all_are_taken_at_the_first_try_and_ended_under_their_own_keys(site: Site, v13: dict[str, Any]) -> None:
    site.server.judge_with(judge(v13))
    given = findings(v13)
    end = float(v13["input"]["stimulus"][-1]["t"])
    site.until(end, *given.values())
    site.until(end + 120, *(clear(run=one.run) for one in given.values()))
    triggers = [body for _, body in site.asked("trigger")]
    assert len(triggers) == expected(v13, "E1")["count"]
    keys = [body["dedup_key"] for body in triggers]
    assert len(set(keys)) == len(keys)
    assert sorted(body["dedup_key"] for _, body in site.asked("resolve")) == sorted(keys)
    texts = [body["payload"]["summary"] for body in triggers]
    assert max(map(len, texts)) <= 1024
    assert all(text.encode("utf-8").decode("utf-8") == text for text in texts)
    details = [body["payload"]["custom_details"] for body in triggers]
    assert any("of 2000 shown" in str(one.get("nodes")) for one in details)


def test_v13_a_pager_that_refuses_all_is_asked_at_most_twice_a_finding(site: Site, v13: dict[str, Any]) -> None:
    site.server.script_forever(Answer(400, json.dumps({"message": f"bad key {KEY}"})))
    given = findings(v13)
    site.until(900, *given.values())
    per_key = [body["dedup_key"] for body in site.server.bodies()]
    most = v13["variants"][0]["expect"][0]["max"]
    assert {per_key.count(key) for key in per_key} == {most}
    assert len(set(per_key)) == len(given)
    assert site.failures_told_elsewhere() == 1
