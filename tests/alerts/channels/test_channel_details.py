"""What is particular to one channel."""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import json
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from pydantic import ValidationError

from alerts.channels.alertmanager import AlertmanagerSection, alert
from alerts.channels.apprise import Apprise, AppriseSection
from alerts.channels.command import Command, CommandSection
from alerts.channels.console import Console, ConsoleSection
from alerts.channels.email import Email, EmailSection
from alerts.channels.email import message as mail_of
from alerts.channels.pagerduty import PagerDutySection
from alerts.channels.slack import Slack, SlackSection
from alerts.channels.webhook import Webhook, WebhookSection
from alerts.notification import Rejected, Retry, Sent
from alerts.secret import Secret
from alerts.worker import BoundedRunner
from tests.alerts.channels.channel_cases import KEY, SECRET, sample
from tests.alerts.http_script import Answer, ScriptedServer


def test_the_receiver_of_a_webhook_can_check_that_it_is_ours(server: ScriptedServer) -> None:
    channel = Webhook(WebhookSection(url=Secret(server.url("/x")), secret=Secret(SECRET)))
    assert isinstance(channel.send(sample()), Sent)
    _, headers, body = server.requests[0]
    stamp, digest = (part.split("=")[1] for part in headers["x-runwatch-signature"].split(","))
    assert digest == hmac.new(SECRET.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    ("said", "kind"),
    [("ratelimited", Retry), ("internal_error", Retry), ("invalid_auth", Rejected), ("channel_not_found", Rejected)],
)
def test_slack_says_no_with_a_200(said: str, kind: type, server: ScriptedServer) -> None:
    server.script_forever(Answer(200, json.dumps({"ok": False, "error": said})))
    section = SlackSection(bot_token=Secret(SECRET), channel="#gpu", api_url=server.url("/api"))
    outcome = Slack(section).send(sample())
    assert isinstance(outcome, kind)
    assert said in outcome.error  # type: ignore[attr-defined]


def test_text_of_a_job_cannot_ping_a_slack_channel_or_leave_its_block(server: ScriptedServer) -> None:
    section = SlackSection(webhook_url=Secret(server.url("/x")))
    Slack(section).send(sample(summary="<!channel> & ```", hint="``` <!here>"))
    text = server.bodies()[0]["text"]
    assert "<!" not in text
    assert text.count("```") == 2 + text.split("\n")[0].count("```")


def test_an_alertmanager_alert_outlives_several_resends_and_ends_when_resolved() -> None:
    begin, end = alert(sample(), {"team": "ml"}, False), alert(sample("resolved"), {"team": "ml"}, False)
    assert begin["labels"] == end["labels"]
    assert begin["startsAt"] == "2023-11-14T22:13:20.000Z"
    assert begin["endsAt"] == "2023-11-14T22:17:20.000Z"
    assert end["endsAt"] == "2023-11-14T22:13:21.000Z"  # never before its start
    assert all(begin["labels"].values())


def test_a_label_that_alertmanager_would_refuse_is_refused_in_the_config() -> None:
    with pytest.raises(ValidationError, match="pattern"):
        AlertmanagerSection.model_validate({"url": "http://am", "labels": {"bad-name": "x"}})


PROGRAM = (
    "import sys,os,json; d=json.load(sys.stdin); open(sys.argv[1],'w').write(os.environ['RUNWATCH_KEY']+d['title'])"
)


def test_a_command_gets_the_message_and_its_exit_code_counts(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert isinstance(_command(PROGRAM, str(out)).send(sample()), Sent)
    assert out.read_text().startswith(f"{KEY}[CRITICAL] tr7: low_power_deadlock")


@pytest.mark.parametrize(
    ("program", "kind", "says"),
    [
        ("import sys; sys.exit('no route')", Retry, "exit 1: no route"),
        ("import sys; sys.exit(65)", Rejected, "exit 65"),
        ("import time; time.sleep(60)", Retry, "still running after 0.5 s, killed"),
    ],
)
def test_a_command_that_fails_says_how(program: str, kind: type, says: str) -> None:
    outcome = _command(program).send(sample())
    assert isinstance(outcome, kind)
    assert says in outcome.error  # type: ignore[attr-defined]


def test_a_command_that_is_not_there_is_named() -> None:
    outcome = Command(CommandSection(argv=("/nowhere/page-me",))).send(sample())
    assert outcome == Retry("page-me: No such file or directory")


def _command(program: str, *arguments: str) -> Command:
    seconds = 0.5 if "sleep" in program else 20
    return Command(CommandSection(argv=(sys.executable, "-c", program, *arguments), timeout_seconds=seconds))


def test_the_console_shows_the_page_and_survives_a_closed_stream() -> None:
    out = io.StringIO()
    assert isinstance(Console(ConsoleSection(), out).send(sample()), Sent)
    assert "[CRITICAL] tr7: low_power_deadlock" in out.getvalue()
    out.close()
    assert isinstance(Console(ConsoleSection(), out).send(sample()), Retry)


class MailBox:
    """An SMTP server that keeps what it gets, or answers with a given line."""

    def __init__(self) -> None:
        self.mails: list[Any] = []
        self.answer = "250 OK"
        self.recipient = "250 OK"

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if self.recipient.startswith("2"):
            envelope.rcpt_tos.append(address)
        return self.recipient

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.mails.append(envelope)
        return self.answer


@pytest.fixture
def mailbox() -> Iterator[tuple[MailBox, EmailSection]]:
    box = MailBox()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    controller = Controller(box, hostname="127.0.0.1", port=port)
    controller.start()
    section = EmailSection(host="127.0.0.1", port=port, tls="none", sender="rw@example.org", to=("a@example.org",))
    yield box, section
    controller.stop()


def test_apprise_attaches_the_picture_where_the_service_takes_one(server: ScriptedServer) -> None:
    channel = Apprise(AppriseSection(url=Secret(server.url("/x").replace("http", "json"))))
    picture = base64.b64encode(b"\x89PNG picture").decode()
    assert isinstance(channel.send(replace(sample(), picture_base64=picture)), Sent)
    assert isinstance(channel.send(replace(sample(), picture_base64=picture), minimal=True), Sent)
    whole, minimal = server.bodies()
    (attached,) = whole["attachments"]
    assert (attached["filename"], attached["mimetype"], attached["base64"]) == ("gpus.png", "image/png", picture)
    assert not minimal.get("attachments")


def test_a_mail_has_both_forms_and_threads_by_incident(mailbox: tuple[MailBox, EmailSection]) -> None:
    box, section = mailbox
    assert isinstance(Email(section).send(sample(summary="Überlauf 漢字 <b>")), Sent)
    text = box.mails[0].content.decode("utf-8", "replace")
    assert "text/plain" in text
    assert "text/html" in text
    opened, resolved = mail_of(section, sample(), False), mail_of(section, sample("resolved"), False)
    assert opened["References"] == resolved["References"]
    assert opened["Message-ID"] != resolved["Message-ID"]
    html = opened.get_body(("html",))
    assert isinstance(html, EmailMessage)
    assert "<b>" not in mail_of(section, sample(summary="<b>"), False).get_body(("html",)).get_content()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("answer", "recipient", "kind"),
    [
        ("451 later", "250 OK", Retry), ("554 no", "250 OK", Rejected),
        ("250 OK", "450 greylisted", Retry), ("250 OK", "550 unknown", Rejected),
    ],
)  # fmt: skip
def test_smtp_codes_mean_later_or_never(
    answer: str, recipient: str, kind: type, mailbox: tuple[MailBox, EmailSection]
) -> None:
    box, section = mailbox
    box.answer, box.recipient = answer, recipient
    assert isinstance(Email(section).send(sample()), kind)


def test_a_mail_server_that_never_greets_cannot_hold_the_worker(server: ScriptedServer) -> None:
    port = int(server.url().split(":")[2].strip("/"))  # an HTTP server waits for us to speak first
    section = EmailSection(host="127.0.0.1", port=port, tls="none", sender="rw@example.org", to=("a@example.org",))
    runner = BoundedRunner("mail")
    assert runner(lambda: Email(section).send(sample()), 0.3) == Retry("no answer within 0.3 s")
    for thread in runner._stuck:
        thread.join(5)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("section", "given", "says"),
    [
        (PagerDutySection, {}, "routing_key or routing_key_file is missing"),
        (WebhookSection, {"url": "http://x", "url_file": "/x"}, "give url or url_file, not both"),
        (SlackSection, {"bot_token": "x"}, "channel is missing"),
        (SlackSection, {}, "give webhook_url"),
        (EmailSection, {"host": "h", "sender": "nobody", "to": ["a@b.c"]}, "'nobody' is not an e-mail address"),
        (EmailSection, {"host": "h", "sender": "a@b.c", "to": ["a@b.c"], "username": "u"}, "go together"),
        (CommandSection, {"argv": []}, "at least 1"),
    ],
)
def test_a_section_that_cannot_work_is_refused_with_the_reason(section: Any, given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        section.model_validate(given)
    assert says in str(caught.value)
