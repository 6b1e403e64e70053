"""One contract for every channel that speaks HTTP, against a real server on loopback."""

from __future__ import annotations

import json
import logging

import pytest

from alerts.channels._api import load_channels
from alerts.notification import Outcome, Rejected, Retry, Sent
from alerts.worker import BoundedRunner
from tests.alerts.channels.channel_cases import CASES, KEY, SECRET, Case, sample
from tests.alerts.http_script import Answer, ScriptedServer
from tests.alerts.incident_samples import T0

every = pytest.mark.parametrize("case", CASES, ids=str)
telling = pytest.mark.parametrize("case", [case for case in CASES if case.tells_status], ids=str)


@every
def test_it_delivers_and_leaves_the_secret_out_of_what_it_logs(
    case: Case, server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.script_forever(case.good)
    assert isinstance(case.make(server.url("")).send(sample()), Sent)
    assert len(server.requests) == 1
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith("urllib3")]
    assert SECRET not in " ".join(ours)


@telling
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Rejected), (401, Rejected), (403, Rejected), (404, Rejected), (410, Rejected), (413, Rejected),
        (408, Retry), (425, Retry), (429, Retry), (500, Retry), (502, Retry), (503, Retry), (504, Retry),
        (301, Rejected), (302, Rejected), (303, Rejected), (307, Rejected), (308, Rejected),
    ],
)  # fmt: skip
def test_a_status_means_the_same_everywhere(
    case: Case, status: int, kind: type[Outcome], server: ScriptedServer
) -> None:
    server.script_forever(Answer(status, "no", {"Location": server.url("/elsewhere")}))
    outcome = case.make(server.url("")).send(sample())
    assert isinstance(outcome, kind)
    assert len(server.requests) == 1  # neither repeated nor redirected by itself


@telling
def test_an_error_names_host_and_status_and_repeats_nothing_confidential(case: Case, server: ScriptedServer) -> None:
    server.judge_with(lambda body: Answer(400, f"bad: {SECRET} \x1b[31m\x00 {body.decode()[:3000]} {SECRET}"))
    outcome = case.make(server.url("")).send(sample())
    assert isinstance(outcome, Rejected)
    assert "127.0.0.1" in outcome.error
    assert "400" in outcome.error
    assert SECRET not in outcome.error
    assert "\x1b" not in outcome.error
    assert len(outcome.error) < 400


@telling
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "60"}, 60.0),
        ({"Retry-After": "9999999"}, 3600.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Tue, 14 Nov 2023 22:15:20 GMT", "Date": "Tue, 14 Nov 2023 22:13:20 GMT"}, 120.0),
        ({}, None),
    ],
)
def test_it_honours_the_wait_that_it_is_asked_for(
    case: Case, headers: dict[str, str], seconds: float | None, server: ScriptedServer
) -> None:
    assert T0 == 1_700_000_000.0
    server.script_forever(Answer(429, "", headers))
    outcome = case.make(server.url("")).send(sample())
    assert isinstance(outcome, Retry)
    if "Date" not in headers:
        assert outcome.after_seconds == seconds


@every
@pytest.mark.parametrize("answer", [Answer.reset(), Answer.close()], ids=["reset", "closed without a word"])
def test_a_broken_connection_is_tried_again(case: Case, answer: Answer, server: ScriptedServer) -> None:
    server.script_forever(answer)
    outcome = case.make(server.url("")).send(sample())
    assert isinstance(outcome, Retry)
    assert SECRET not in outcome.error


@every
def test_nobody_listening_is_tried_again(case: Case) -> None:
    outcome = case.make("http://127.0.0.1:9").send(sample())
    assert isinstance(outcome, Retry)
    assert SECRET not in outcome.error


@telling
def test_a_server_that_drips_cannot_hold_the_worker_and_its_thread_comes_back(
    case: Case, server: ScriptedServer
) -> None:
    server.script_forever(Answer.drip())
    runner = BoundedRunner("x")
    outcome = runner(lambda: case.make(server.url("")).send(sample()), 0.3)
    assert outcome == Retry("no answer within 0.3 s")
    for thread in runner._stuck:
        thread.join(5)
        assert not thread.is_alive()


@every
def test_any_script_gets_through_whole(case: Case, server: ScriptedServer) -> None:
    server.script_forever(case.good)
    outcome = case.make(server.url("")).send(sample(summary="Überlauf 漢字 🔥 <b>&\ud800\x1b[2J n3"))
    assert isinstance(outcome, Sent)
    text = json.dumps(server.bodies()[0], ensure_ascii=False)
    assert "Überlauf 漢字 🔥" in text
    assert "\x1b" not in text


@every
def test_a_page_of_any_size_stays_within_the_limit_and_its_smallest_form_says_what_it_is(
    case: Case, server: ScriptedServer
) -> None:
    server.script_forever(case.good)
    channel = case.make(server.url(""))
    big = sample(evidence={f"node{i}": "漢" * 3000 for i in range(300)}, hint="h" * 20_000, summary="s" * 5_000)
    assert isinstance(channel.send(big), Sent)
    assert isinstance(channel.send(big, minimal=True), Sent)
    whole, least = (body for _, _, body in server.requests)
    assert len(whole) <= case.limit
    assert len(least) < 6_000
    assert b"low_power_deadlock" in least


@every
def test_beginning_and_end_go_out_under_one_key(case: Case, server: ScriptedServer) -> None:
    server.script_forever(case.good)
    channel = case.make(server.url(""))
    assert isinstance(channel.send(sample("opened")), Sent)
    assert isinstance(channel.send(sample("resolved")), Sent)
    bodies = [body.decode() for _, _, body in server.requests]
    assert all((KEY in body) is True for body in bodies if case.keyed)
    assert bodies[0] != bodies[1]


def test_every_channel_is_found_and_no_secret_prints() -> None:
    assert set(load_channels()) >= {
        "alertmanager", "apprise", "command", "console", "email", "pagerduty", "slack", "webhook",
    }  # fmt: skip
    for case in CASES:
        assert SECRET not in repr(case.make("http://127.0.0.1:9"))
