"""Receivers that take a message and then misbehave, take less than we have to say, or are not who they should be."""

from __future__ import annotations

import getpass
import smtplib
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import apprise
import pytest
from aiosmtpd.controller import Controller

from alerts.channels.apprise import Apprise, AppriseSection, fitted
from alerts.channels.command import Command, CommandSection
from alerts.channels.email import Email, EmailSection
from alerts.notification import Rejected, Retry, Sent
from alerts.secret import Secret
from tests.alerts.channels.channel_cases import CASES, Case, sample
from tests.alerts.http_script import Answer, ScriptedServer
from watcher.cli._api import who

LONG = {f"node{i}": "漢 & <b> 🔥" * 60 for i in range(30)}


class Rude:
    """Takes the mail and answers the goodbye in its own way."""

    def __init__(self) -> None:
        self.mails: list[Any] = []
        self.goodbye = "221 Bye"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.mails.append(envelope)
        return "250 OK"

    async def handle_QUIT(self, server: Any, session: Any, envelope: Any) -> str:
        return self.goodbye


@pytest.fixture
def rude() -> Iterator[tuple[Rude, EmailSection]]:
    box = Rude()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    controller = Controller(box, hostname="127.0.0.1", port=port)
    controller.start()
    section = EmailSection(host="127.0.0.1", port=port, tls="none", sender="rw@example.org", to=("a@example.org",))
    yield box, section
    controller.stop()


@pytest.mark.parametrize("goodbye", ["221 Bye", "421 overloaded", "550 who are you", "250 fine"])
def test_a_mail_that_was_taken_counts_whatever_the_goodbye(goodbye: str, rude: tuple[Rude, EmailSection]) -> None:
    box, section = rude
    box.goodbye = goodbye
    assert Email(section).send(sample()) == Sent()
    assert len(box.mails) == 1


@pytest.mark.parametrize(("code", "kind"), [(454, Retry), (535, Rejected)])
def test_a_login_that_cannot_be_checked_now_is_tried_later(
    code: int, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Busy(smtplib.SMTP):
        def login(self, user: str, password: str, *, initial_response_ok: bool = True) -> Any:
            raise smtplib.SMTPAuthenticationError(code, b"temporary authentication failure")

    monkeypatch.setattr(Email, "_connected", lambda channel: Busy())
    section = EmailSection(
        host="mx", sender="rw@example.org", to=("a@example.org",), username="rw", password=Secret("secret")
    )
    assert isinstance(Email(section).send(sample()), kind)


@pytest.mark.parametrize(
    "url",
    [
        "discord://1111111111111111111/abcdefghijklmnopqrstuvwxyz", "tgram://123456789:abcdefg_hijklmnop/12315544/",
        "pover://uuuuuuuuuuuuuuuuuuuuuuuuuuuuuu@tttttttttttttttttttttttttttttt", "workflows://host/workflow/signature",
        "twilio://AC11111111111111111111111111111111:22222222222222222222222222222222@15551112222/15553334444",
    ],
)  # fmt: skip
def test_a_page_fits_into_what_the_service_takes(url: str) -> None:
    target = apprise.Apprise()
    assert target.add(url)
    service = target[0]
    title, body = fitted(sample(evidence=LONG), False, service.title_maxlen, service.body_maxlen)
    assert len(title) <= service.title_maxlen
    assert len(body) <= service.body_maxlen
    assert "low_power_deadlock" in f"{title}{body}"
    assert body.endswith("…" if service.body_maxlen <= 200 else "… (cut)")


@pytest.mark.parametrize("wish", ["", "?overflow=split"])
def test_a_long_page_is_one_message_unless_the_url_wishes_more(wish: str, server: ScriptedServer) -> None:
    server.script_forever(Answer(200, "{}"))
    url = server.url("/topic").replace("http", "ntfy") + wish
    long = replace(sample(), text=sample().text + "\n" + "line of evidence\n" * 600)
    assert isinstance(Apprise(AppriseSection(url=Secret(url))).send(long), Sent)
    if not wish:
        (said,) = [body["message"] for body in server.bodies()]
        assert len(said) <= 7_800
        assert said.endswith("… (cut)")
    assert (len(server.requests) > 1) is bool(wish)


def test_a_login_page_in_between_is_no_pager(server: ScriptedServer) -> None:
    server.script_forever(Answer(200, "\n<!DOCTYPE html><html><body>Please log in</body></html>"))

    def outcome(case: Case) -> object:
        return case.make(server.url("")).send(sample())

    told = {case.name: outcome(case) for case in CASES if case.tells_status}
    assert isinstance(told.pop("webhook"), Sent)  # whose answers are its own affair
    assert all(isinstance(one, Retry) for one in told.values())
    assert "a proxy or a login page" in str(told["pagerduty"])


def test_a_slack_thread_that_is_gone_costs_no_page(server: ScriptedServer) -> None:
    channel = next(case for case in CASES if case.name == "slack_bot").make(server.url(""))
    gone, fine = '{"ok": false, "error": "thread_not_found"}', '{"ok": true, "ts": "18.1"}'
    server.judge_with(lambda body: Answer(200, gone if b"thread_ts" in body else fine))
    assert isinstance(channel.send(replace(sample(), receipt="17.1")), Rejected)
    assert channel.send(replace(sample(), receipt="17.1"), minimal=True) == Sent("18.1")


def _command(program: str, seconds: float = 20.0) -> Command:
    return Command(CommandSection(argv=(sys.executable, "-c", program), timeout_seconds=seconds))


def test_what_a_command_leaves_running_does_not_repeat_its_page() -> None:
    leaves = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3)'])"
    assert _command(leaves, 2.0).send(sample()) == Sent()


def test_a_command_that_never_stops_talking_fills_no_memory() -> None:
    talks = "import sys\nfor _ in range(400): sys.stderr.write('x' * 65536)\nsys.exit('the end')"
    outcome = _command(talks).send(sample())
    assert isinstance(outcome, Retry)
    assert len(outcome.error) < 300


def test_a_command_that_reads_nothing_has_delivered() -> None:
    assert _command("pass").send(sample(evidence=LONG)) == Sent()


def test_a_user_without_a_name_can_still_acknowledge(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert who().startswith("uid ")
