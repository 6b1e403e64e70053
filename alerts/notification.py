"""What a channel is handed, and what it may answer."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Literal

from pydantic import TypeAdapter

from alerts._face import Face, face_of
from alerts._incident import Incident, bounded_key
from detectors.verdict import Severity

Kind = Literal["opened", "updated", "escalated", "reminder", "acknowledged", "resolved", "test"]
Action = Literal["trigger", "acknowledge", "resolve"]


@dataclass(frozen=True, slots=True)
class Link:
    name: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One message to one channel. `dedup_key` is the same for everything about one trouble, for ever.

    `title` is one clean line; `text` is the whole page in plain text and begins with the title. `members` lists what
    a grouped page is about (empty for a single incident), `member_count` how many there are in truth. `repeated`: said
    before, for a side that forgets. `sent_at`: when this attempt begins, which may be hours after `at`. `receipt`: what
    the other side gave for the first message about this trouble.
    """

    kind: Kind
    dedup_key: str
    at: float
    incident: Incident
    severity: Severity
    title: str
    text: str
    run: str | None = None
    html: str | None = None
    links: tuple[Link, ...] = ()
    members: tuple[str, ...] = ()
    member_count: int = 0
    picture_base64: str = ""  # a small PNG, for channels that can show one
    face: Face | None = None
    repeated: bool = False
    sent_at: float | None = None
    receipt: str = ""

    @property
    def now(self) -> float:
        return self.sent_at if self.sent_at is not None else self.at

    @property
    def first_face(self) -> Face:
        """What its key stood for in its first message."""
        return self.face if self.face is not None else face_of([self.incident])

    @property
    def picture(self) -> bytes | None:
        return base64.b64decode(self.picture_base64) if self.picture_base64 else None

    @property
    def action(self) -> Action:
        """What a channel that keeps state does with it."""
        if self.kind == "resolved":
            return "resolve"
        return "acknowledge" if self.kind == "acknowledged" else "trigger"


@dataclass(frozen=True, slots=True)
class Sent:
    """The other side took it. `receipt`: what later messages about the same trouble need, e.g. its thread; it is kept
    over a restart. `trouble`: what did not work beside the message itself; one clean line."""

    receipt: str = ""
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Retry:
    """Not now. `after_seconds`: what the other side asked for. `error` is clean: no secret, no URL with one."""

    error: str
    after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """Never in this form. It is tried once more in its smallest form."""

    error: str


Outcome = Sent | Retry | Rejected

_NOTIFICATION: TypeAdapter[Notification] = TypeAdapter(Notification)
_INCIDENT: TypeAdapter[Incident] = TypeAdapter(Incident)


def raised_key(key: str, severity: Severity) -> str:
    """The second key of a trouble that became worse: pagers swallow repeats of a key that is open."""
    return f"{bounded_key(key)}/{severity.label}"


def notification_to_json(notification: Notification) -> str:
    return _NOTIFICATION.dump_json(notification).decode("utf-8")


def notification_from_json(text: str) -> Notification:
    """Raises ValueError (pydantic's) on anything else."""
    return _NOTIFICATION.validate_json(text)


def incident_to_json(incident: Incident) -> str:
    return _INCIDENT.dump_json(incident).decode("utf-8")


def incident_from_json(text: str) -> Incident:
    """Raises ValueError (pydantic's) on anything else."""
    return _INCIDENT.validate_json(text)
