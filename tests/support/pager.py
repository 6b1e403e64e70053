"""Receivers that keep what is open, as a pager does, and fail by script: over HTTP like PagerDuty, or by mail."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import Envelope

from tests.alerts.http_script import Answer
from tests.support.real_server import free_port

Taken = tuple[float, str, str]  # when, trigger | acknowledge | resolve, key
ACCEPTED = Answer(202, '{"status": "success"}')


@dataclass
class Pager:
    """`fault` decides how a request is answered; None is a healthy answer. `taken` is what took effect."""

    now: Callable[[], float]
    fault: Callable[[], Answer | None] = lambda: None
    taken: list[Taken] = field(default_factory=list)
    attempts: int = 0

    def answer(self, body: bytes) -> Answer:
        self.attempts += 1
        fault = self.fault()
        if fault is None or fault.how == "close":  # a reply that got lost on the way
            event = json.loads(body)
            self.take(event["event_action"], event["dedup_key"])
        return ACCEPTED if fault is None else fault

    def take(self, action: str, key: str) -> None:
        self.taken.append((self.now(), action, key))

    @property
    def open(self) -> set[str]:
        """What it holds as open now."""
        held: set[str] = set()
        for _, action, key in self.taken:
            if action == "trigger":
                held.add(key)
            elif action == "resolve":
                held.discard(key)
        return held


SUBJECT = re.compile(r"^\[(?P<word>[A-Z ]+)\] (?P<run>[^:]+):")


class MailServer:
    """A real SMTP server. The key of a mail is that of a stall of the run in its subject."""

    def __init__(self, pager: Pager) -> None:
        self._pager = pager
        self.port = free_port()
        self._controller = Controller(self, hostname="127.0.0.1", port=self.port)
        self._controller.start()

    async def handle_DATA(self, server: Any, session: Any, envelope: Envelope) -> str:
        self._pager.attempts += 1
        if self._pager.fault() is not None:
            return "451 4.7.1 try again later"
        assert isinstance(envelope.content, bytes)
        head = envelope.content.decode("utf-8", "replace").partition("\r\n\r\n")[0]
        subject = re.sub(r"\r\n[ \t]", " ", head).partition("Subject: ")[2].partition("\r\n")[0]
        found = SUBJECT.match(subject)
        if found is not None:
            self._pager.take("resolve" if found["word"] == "RESOLVED" else "trigger", f"{found['run']}/stall")
        return "250 OK"

    def stop(self) -> None:
        self._controller.stop()


def lossy(chance: random.Random) -> Callable[[], Answer | None]:
    """Half of all connections are reset before anything happens, a quarter after it did."""

    def fault() -> Answer | None:
        drawn = chance.random()
        return Answer.reset() if drawn < 0.5 else Answer.close() if drawn < 0.75 else None

    return fault
