"""What the page says, how it answers those who ask again, and that texts from logs stay texts."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from alerts.incidents import StepResult
from detectors.busy_stall import BusyStallConfig
from detectors.low_power_deadlock import LowPowerDeadlockConfig
from detectors.registry import load_plugins
from tests.support.asgi_browser import Browser
from tests.support.served_fleet import HEALTHY, RUN, ServedFleet
from watcher.daemon.evaluate import build_detectors
from watcher.daemon.http import build_app
from watcher.daemon.store import StoreError

STALL = f"/incidents/{RUN}%2Fstall"


@pytest.fixture(scope="module")
def hung(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedFleet]:
    """For those that only look."""
    site = ServedFleet(tmp_path_factory.mktemp("hung"))
    site.play_until_open()
    yield site
    site.close()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[ServedFleet]:
    """For those that change something."""
    site = ServedFleet(tmp_path)
    site.play_until_open()
    yield site
    site.close()


def words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def test_the_first_lines_say_what_is_wrong_where_since_when_and_what_to_do(hung):
    text = words(Browser(hung.app).get("/").text)
    first = text[text.index("critical") :][:700]
    for part in (
        RUN,
        "since 2023-11-14",
        f"{RUN} stands still",
        "gpu-node-02 gpu 5",
        "Do first: Take stacks",
        "I have it",
    ):
        assert part in first, (part, first)
    assert "nobody has it yet" in first


def test_a_healthy_page_says_when_the_next_step_the_end_and_a_page_are_due_and_what_it_costs(tmp_path):
    site = ServedFleet(tmp_path, HEALTHY)
    site.play(1200)
    text = words(Browser(site.app).get("/").text)
    for part in (
        f"{RUN} is training", "no incident is open", "the next step within 10 s", "a page, if nothing moves within",
        "of 5,000", "148.", "40.00 USD an hour", "2 of 2 nodes", "power of 16 of 16 GPUs",
    ):  # fmt: skip
        assert part in text, part
    assert re.search(r"Done in 2 h \d\d m", text)
    site.close()


def test_when_a_page_would_come_follows_the_limits_of_the_run(tmp_path):
    site = ServedFleet(tmp_path, HEALTHY)
    (run,) = site.daemon.runs
    configs = {"low_power_deadlock": LowPowerDeadlockConfig(least_seconds=1111.0)}
    run.detectors = build_detectors(load_plugins(), {**configs, "busy_stall": BusyStallConfig(least_seconds=1111.0)})
    site.play(1200)
    assert re.search(r"a page, if nothing moves within 18 m", words(Browser(site.app).get("/").text))
    site.close()


def test_without_a_run_the_page_tells_what_to_do(tmp_path):
    site = ServedFleet(tmp_path, nodes=0)
    text = words(Browser(site.app).get("/").text)
    assert "No run is watched" in text
    assert "runwatch init" in text
    site.close()


def test_an_address_that_is_none_is_told_to_a_person_in_words_and_to_a_program_as_json(tmp_path):
    site = ServedFleet(tmp_path)
    person, program = Browser(site.app), Browser(site.app, headers={"accept": "*/*"})
    for path in ("/nowhere", "/static/nothing.css", "/pictures/strip/another"):
        lost = person.get(path)
        assert lost.status == program.get(path).status == 404
        assert "To the runs" in lost.text
        assert program.get(path).text.startswith('{"error":')
    assert person.get("/api/incidents/none").text.startswith('{"error":')
    site.close()


def test_before_the_first_look_it_says_so(tmp_path):
    site = ServedFleet(tmp_path)
    browser = Browser(site.app)
    assert "First look under way" in browser.get("/").text
    early = browser.get(f"/runs/{RUN}")
    assert early.status == 503
    assert "has not looked at this run yet" in early.text
    assert 'http-equiv="refresh"' in early.text
    site.play(10)
    assert browser.get(f"/runs/{RUN}").status == 200
    assert browser.get("/runs/another").status == 404
    site.close()


def test_an_incident_can_be_acknowledged_snoozed_woken_and_ended(fresh):
    browser = Browser(fresh.app)
    csrf = browser.get(STALL).csrf

    def act(**fields: str) -> str:
        answer = browser.post(STALL, {"csrf": csrf, "by": "Ada <b>", **fields})
        assert answer.status == 303, answer.text
        return browser.get(answer.header("location")).text

    assert "acknowledged by Ada &lt;b&gt;" in act(action="ack")
    assert "snoozed" in act(action="snooze", seconds="3600")
    assert "End the snooze" not in act(action="wake")
    ended = act(action="false_alarm", why="a drill")
    assert "a drill" in ended
    assert "set daemon.recording" in ended
    late = browser.post(STALL, {"csrf": csrf, "action": "ack"})
    assert (late.status, "over already" in late.text) == (409, True)


@pytest.mark.parametrize("fields", [{"action": "explode"}, {}, {"action": "snooze", "seconds": "1e999"}])
def test_a_form_that_makes_no_sense_is_answered_in_words(hung, fields):
    browser = Browser(hung.app)
    answer = browser.post(STALL, {"csrf": browser.get(STALL).csrf, **fields})
    assert answer.status == 400
    assert "That did not work" in answer.text


def test_too_large_a_form_is_refused(hung):
    browser = Browser(hung.app)
    assert browser.post(STALL, {"csrf": browser.get(STALL).csrf, "why": "x" * 20_000}).status == 413


def test_an_incident_page_shows_evidence_the_gpu_that_differs_first_its_course_and_the_runbook(hung):
    html = Browser(hung.app).get(STALL).text
    text = words(html)
    for part in ("py-spy dump", "limit origin", "learnt: longest gap", "held for", "usually 3"):
        assert part in text, part
    assert re.search(r'class="differs"><th scope="row">gpu-node-02 gpu 5', html)


def test_what_is_over_stays_in_the_timeline(tmp_path):
    site = ServedFleet(tmp_path)
    site.play(1400)
    app = site.app
    assert words(Browser(app).get("/").text).count("restarted as attempt 2") >= 1
    assert "over 2023-11-14" in words(Browser(app).get(STALL).text)
    assert "steps 4,101 to 4,154" in words(Browser(app).get(f"/runs/{RUN}").text)
    site.close()


@pytest.mark.parametrize("path", ["/", f"/runs/{RUN}", STALL, "/incidents", "/nodes", "/docs", "/docs/crash"])
def test_every_page_has_a_strict_policy_and_nothing_inline(hung, path):
    answer = Browser(hung.app).get(path)
    policy = answer.header("content-security-policy")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.header("x-frame-options") == "DENY"
    assert answer.header("x-content-type-options") == "nosniff"
    assert answer.header("referrer-policy") == "same-origin"
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=|https?://", answer.text)


def test_who_asks_again_gets_the_page_only_if_something_changed(fresh):
    browser = Browser(fresh.app)
    browser.get("/")
    first = browser.get("/")
    again = browser.get("/", if_none_match=first.header("etag"))
    assert (again.status, again.body) == (304, b"")
    assert float(again.header("runwatch-now")) == fresh.clock.time()
    assert browser.get("/", if_none_match=first.header("etag").replace('"', 'W/"', 1)).status in (200, 304)
    fresh.play(10)
    assert browser.get("/", if_none_match=first.header("etag")).status == 200


@pytest.mark.parametrize("kind", ["strip", "plots"])
def test_pictures_answer_304_until_the_next_cycle(fresh, kind):
    browser = Browser(fresh.app)
    first = browser.get(f"/pictures/{kind}/{RUN}")
    assert browser.get(f"/pictures/{kind}/{RUN}", if_none_match=first.header("etag")).status == 304
    fresh.play(10)
    assert browser.get(f"/pictures/{kind}/{RUN}", if_none_match=first.header("etag")).status == 200
    assert browser.get(f"/pictures/{kind}/nothing").status == 404


def test_the_strip_holds_a_byte_for_each_gpu_and_moment(hung):
    data = json.loads(Browser(hung.app).get(f"/pictures/strip/{RUN}").body)
    busy = base64.b64decode(data["busy"])
    assert len(busy) == 16 * data["columns"]
    latest = [busy[row * data["columns"] + data["columns"] - 1] for row in range(16)]
    assert data["rows"][13] == "gpu-node-02 gpu 5"
    assert latest == [data["full"]] * 13 + [0] + [data["full"]] * 2


HOSTILE = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</pre></main><h1>x", "'\"`{{7*7}}", "\x1b[31mred",
    "\u202egnp.exe", "😀" * 300, "x" * 5000, "\x00\ud800",
)  # fmt: skip


def test_texts_from_logs_nodes_and_people_stay_texts(fresh):
    desk = fresh.daemon.desk
    key = f"{RUN}/stall"
    bad = "\n".join(HOSTILE[:6])
    evil = replace(
        desk.incidents[key],
        summary=bad,
        hint=bad,
        evidence={bad: bad, "log_tail": list(HOSTILE), "gpus": [{"node": bad}]},
    )
    desk._incidents = {**desk.incidents, key: evil}
    fresh.source.more_lines = list(HOSTILE[:7])
    frame = fresh.daemon.frames[RUN]
    fresh.daemon.frames[RUN] = replace(frame, log_tail=HOSTILE)
    browser = Browser(fresh.app)
    for path in ("/", STALL, f"/runs/{RUN}", "/incidents"):
        html = browser.get(path).text
        assert "<script>" not in html
        assert "<img" not in html
        assert html.count("</main>") == 1
        assert "\x1b" not in html
        assert "\u202e" not in html
        assert "\x00" not in html


def test_a_node_or_run_with_a_strange_name_is_reachable(tmp_path):
    site = ServedFleet(tmp_path)
    site.play(20)
    frame = site.daemon.frames.pop(RUN)
    site.daemon.frames['a b?c#d<"&%2F'] = replace(frame, run='a b?c#d<"&%2F')
    browser = Browser(site.app)
    place = re.search(r'href="(/runs/[^"]+)"', browser.get("/").text)
    assert place
    assert browser.get(place[1]).status == 200
    assert browser.get("/runs/none").status == 404
    site.close()


def test_without_the_database_what_is_live_is_shown_and_the_rest_is_said(hung):
    class Broken:
        def history(self, *args: object) -> list[object]:
            raise StoreError("database /x.db: disk I/O error")

        transitions = deliveries = history

    app = build_app(hung.daemon, None, hung.store.history, Broken())
    for path in ("/", STALL, f"/runs/{RUN}", "/incidents"):
        shown = Browser(app).get(path)
        assert shown.status == 200
        assert "stands still" in shown.text
        assert "disk I/O error" in shown.text


def test_a_runbook_is_html_for_a_browser_and_markdown_for_everybody_else(hung):
    browser = Browser(hung.app)
    assert "<h1>low_power_deadlock</h1>" in browser.get("/docs/low_power_deadlock").text
    for accept in ("*/*", "text/markdown"):
        plain = browser.get("/docs/low_power_deadlock", accept=accept)
        assert plain.text.startswith("# low_power_deadlock")
        assert plain.header("content-type").startswith("text/markdown")
    for name in ("none", "..%2Fsecret", "x.y", "é"):
        assert browser.get(f"/docs/{name}").status == 404


def test_nodes_with_strikes_are_named_with_what_to_exclude(fresh):
    from detectors.frame import Strike

    ledger = fresh.daemon.runs[0].fold.ledger
    for days in (1, 3):
        ledger.add(
            Strike(at=fresh.clock.now - days * 86_400, node="gpu-node-02", kind="xid_79", detail="<b>off the bus")
        )
    html = Browser(fresh.app).get("/nodes").text
    assert "--exclude=gpu-node-02" in html
    assert "&lt;b&gt;off the bus" in html
    assert "leave it out" in Browser(fresh.app).get("/").text


def test_a_cycle_that_fails_is_said_on_the_page(fresh):
    fresh.daemon.health.error = "RuntimeError('<boom>')"
    assert "RuntimeError(&#39;&lt;boom&gt;&#39;)" in Browser(fresh.app).get("/").text


def test_an_incident_that_is_only_in_the_store_is_still_shown(fresh):
    incident = fresh.daemon.desk.incidents[f"{RUN}/stall"]
    old = replace(incident, key="old/crash", id="x", state="resolved", resolved_at=incident.last_changed_at)
    fresh.store.commit(StepResult({**fresh.daemon.desk.incidents, "old/crash": old}, ()), {}, (), fresh.clock.now)
    assert Browser(fresh.app).get("/incidents/old%2Fcrash").status == 200
    assert Browser(fresh.app).get("/incidents/none").status == 404


def test_of_several_critical_incidents_the_run_that_stands_still_leads(fresh):
    from detectors.frame import Strike

    for days in (1, 2):
        fresh.daemon.ledger.add(Strike(at=fresh.clock.now - days * 86_400, node="gpu-node-02", kind="xid_79"))
    fresh.play(60)
    assert len(fresh.daemon.desk.incidents) == 2
    html = Browser(fresh.app).get("/").text
    assert f"{RUN} stands still" in words(html[html.index("<h1>") : html.index("</h1>")])
    assert "1 more critical" in html
