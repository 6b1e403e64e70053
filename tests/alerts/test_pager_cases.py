"""The whole way from a finding to a real HTTP server that answers by script."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from alerts.channels.pagerduty import PagerDuty, PagerDutySection
from alerts.channels.webhook import Webhook, WebhookSection
from alerts.secret import Secret
from detectors.verdict import Subject
from tests.alerts.delivery_samples import CHAT, PAGER, House, Scripted
from tests.alerts.http_script import Answer, ScriptedServer
from tests.alerts.incident_samples import clear, finding, fires
from watcher.clock import FakeClock

KEY = "R0UTINGKEY0123456789abcdef012345"
THROTTLED = Answer(429, json.dumps({"status": "throttle exceeded", "message": "Too quickly."}))
ACCEPTED = Answer(202, json.dumps({"status": "success"}))


def _house(tmp_path: Path, server: ScriptedServer, clock: FakeClock) -> tuple[House, Scripted]:
    config = PagerDutySection(routing_key=Secret(KEY), url=server.url("/v2/enqueue"))
    chat = Scripted(clock)
    house = House(tmp_path, clock, {"oncall": (PagerDuty(config), PAGER), "team": (chat, CHAT)})
    return house, chat


def _actions(server: ScriptedServer, action: str) -> list[dict[str, Any]]:
    return [body for body in server.bodies() if body["event_action"] == action]


def test_a_page_survives_a_reset_a_throttle_and_a_500_and_is_resolved_when_allowed(
    tmp_path: Path, server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    caplog.set_level(logging.DEBUG)
    server.script("trigger", Answer.reset(), THROTTLED, Answer(500, "<html>oops</html>"), ACCEPTED)
    server.script("resolve", Answer(429, "{}", {"Retry-After": "60"}), ACCEPTED)
    house, _ = _house(tmp_path, server, clock)
    start = clock.now
    times: list[float] = []

    def go(seconds: float, judged: Any) -> None:
        for _ in range(int(seconds / 5)):
            before = len(server.requests)
            house.tick(judged)
            times.extend([clock.now - start] * (len(server.requests) - before))
            clock.advance(5)

    go(900, fires(finding()))
    triggers = _actions(server, "trigger")
    assert len(triggers) == 4
    assert times[3] <= 600
    assert all(later - earlier >= 5 for earlier, later in pairwise(times))
    assert len([at for at in times if at < 300]) <= 10
    go(300, clear())
    resolves = _actions(server, "resolve")
    assert len(resolves) == 2
    assert times[5] - times[4] >= 60
    assert {body["dedup_key"] for body in (*triggers, *resolves)} == {"tr7/stall"}
    assert KEY not in caplog.text
    assert KEY not in " ".join(house.warnings)
    stored = (tmp_path / "runwatch.db").read_bytes() + (tmp_path / "runwatch.db-wal").read_bytes()
    assert KEY.encode() not in stored


def test_a_trouble_that_ends_before_its_page_got_out_is_told_first_and_resolved_after(
    tmp_path: Path, server: ScriptedServer
) -> None:
    clock = FakeClock()
    server.script("trigger", Answer.reset(), THROTTLED, ACCEPTED)
    house, _ = _house(tmp_path, server, clock)
    house.tick(fires(finding()))
    clock.advance(20)
    for _ in range(60):
        house.tick(clear())
        clock.advance(10)
    assert [body["event_action"] for body in server.bodies()] == ["trigger"] * 3 + ["resolve"]


def test_a_daemon_that_is_killed_between_attempts_goes_on_with_the_same_key(
    tmp_path: Path, server: ScriptedServer
) -> None:
    clock = FakeClock()
    server.script("trigger", Answer.reset(), THROTTLED, Answer(500, ""), ACCEPTED)
    house, _ = _house(tmp_path, server, clock)
    while len(server.requests) < 3:
        house.tick(fires(finding()))
        clock.advance(5)
    house.kill()
    clock.advance(30)
    house.start()
    for _ in range(30):
        house.tick(fires(finding()))
        clock.advance(10)
    assert len(server.requests) == 4
    assert {body["dedup_key"] for body in server.bodies()} == {"tr7/stall"}


def test_a_lost_reply_repeats_the_page_under_the_same_key(tmp_path: Path, server: ScriptedServer) -> None:
    clock = FakeClock()
    server.script("trigger", Answer.close(), ACCEPTED)
    house, _ = _house(tmp_path, server, clock)
    for _ in range(20):
        house.tick(fires(finding()))
        clock.advance(10)
    assert [body["dedup_key"] for body in server.bodies()] == ["tr7/stall"] * 2


def test_an_outage_of_three_hours_is_told_once_elsewhere_and_the_page_arrives_soon_after(
    tmp_path: Path, server: ScriptedServer
) -> None:
    clock = FakeClock()
    server.script_forever(Answer(503, ""))
    house, chat = _house(tmp_path, server, clock)
    house.run(3 * 3600, [fires(finding())], every=30)
    failed = [one for _, one in chat.seen if one.incident.signature == "delivery_failed" and one.kind == "opened"]
    assert len(failed) == 1
    assert not house.outbox.nobody_hears(clock.now)  # the team does
    assert "503" in failed[0].title
    server.script_forever(ACCEPTED)
    before = len(server.requests)
    house.run(900, [fires(finding())])
    accepted = server.bodies()[before:]
    assert [body["event_action"] for body in accepted] == ["trigger"]
    assert (
        len([one for _, one in chat.seen if one.incident.family == "delivery_failed.oncall" and one.kind == "resolved"])
        == 1
    )


def test_a_webhook_that_refuses_old_signatures_takes_the_retry(tmp_path: Path, server: ScriptedServer) -> None:
    clock = FakeClock()
    hook = Webhook(WebhookSection(url=Secret(server.url("/hook")), secret=Secret(KEY)))
    house = House(tmp_path, clock, {"hook": (hook, PAGER)})
    server.script_forever(Answer(503))
    house.run(3600, [fires(finding())], every=30)

    def takes(body: bytes) -> Answer:
        stamp, _, mac = server.requests[-1][1]["x-runwatch-signature"].partition(",v1=")
        seconds = stamp.removeprefix("t=")
        right = hmac.new(KEY.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
        return Answer(204 if mac == right and abs(clock.now - int(seconds)) < 300 else 401)

    server.judge_with(takes)
    house.run(600, [fires(finding())])
    sent = [one for one in house.store.deliveries() if one.dedup_key == "tr7/stall"]
    assert [(one.state, one.notification.kind) for one in sent] == [("sent", "opened")]


def _checks_limits(body: bytes) -> Answer:
    event = json.loads(body.decode("utf-8"))
    payload = event.get("payload", {})
    ok = (
        len(payload.get("summary", "")) <= 1024 and len(event["dedup_key"]) <= 255 and len(body) <= 524_288
        and payload.get("severity", "info") in ("critical", "error", "warning", "info")
    )  # fmt: skip
    return ACCEPTED if ok else Answer(400, "invalid event")


def test_names_and_evidence_of_any_size_and_script_are_accepted_at_the_first_try(
    tmp_path: Path, server: ScriptedServer
) -> None:
    clock = FakeClock()
    server.judge_with(_checks_limits)
    house, _ = _house(tmp_path, server, clock)
    long_text = "Überlauf 漢字 🔥 rank 3: watchdog text. " * 100
    names = ["job train-" + "x" * 300 + f"-{end}" for end in "AB"]
    nodes = [f"node n{number:04d}: last step 120, 74 W of 700 W, tail: {'é' * 300}" for number in range(2000)]
    found = [
        fires(finding(subject=Subject(run=name), summary=long_text, evidence={"text": long_text}), run=name)
        for name in names
    ]
    found.append(fires(finding(subject=Subject(run="cluster"), evidence={"nodes": nodes}), run="cluster"))
    house.tick(*found)
    triggers = server.bodies()
    assert len(triggers) == 3
    assert len({body["dedup_key"] for body in triggers}) == 3
    summary = max((body["payload"]["summary"] for body in triggers), key=len)
    assert len(summary) == 1024
    assert summary.encode("utf-8").decode("utf-8") == summary
    shown = next(body for body in triggers if body["payload"]["source"] == "cluster")["payload"]["custom_details"]
    assert shown["nodes"][-1].endswith("of 2000 shown")
    clock.advance(300)
    for _ in range(6):
        house.tick(*(clear(run=name) for name in (*names, "cluster")))
        clock.advance(10)
    assert {body["dedup_key"] for body in _actions(server, "resolve")} == {body["dedup_key"] for body in triggers}


def test_a_pager_that_refuses_everything_is_asked_twice_and_the_failure_goes_elsewhere(
    tmp_path: Path, server: ScriptedServer
) -> None:
    clock = FakeClock()
    server.script_forever(Answer(400, json.dumps({"message": f"bad key {KEY}"})))
    house, chat = _house(tmp_path, server, clock)
    house.run(600, [fires(finding())])
    bodies = server.bodies()
    assert len(bodies) == 2
    assert "custom_details" in bodies[0]["payload"]
    assert "custom_details" not in bodies[1]["payload"]
    failed = [one for _, one in chat.seen if one.incident.signature == "delivery_failed"]
    assert [one.kind for one in failed] == ["opened"]
    assert KEY not in failed[0].text
