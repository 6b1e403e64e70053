"""One message on its way to one channel, and what remembers it over a crash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from alerts.notification import Notification

DeliveryState = Literal["pending", "sent", "rejected", "dropped"]


class JournalError(Exception):
    """What was to be remembered could not be; one readable line. Sending goes on without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A row of the outbox. Instants are unix seconds; `fallback_of` names the channel it stands in for."""

    id: int
    channel: str
    notification: Notification
    created_at: float
    due_at: float
    state: DeliveryState = "pending"
    attempts: int = 0
    first_attempt_at: float | None = None
    finished_at: float | None = None
    error: str = ""
    minimal: bool = False  # refused once, goes out in its smallest form
    fell_back: bool = False  # another channel has been asked to carry it too
    fallback_of: str | None = None
    receipt: str = ""  # of the first message of its key, once that is sent

    @property
    def dedup_key(self) -> str:
        return self.notification.dedup_key


@dataclass(frozen=True, slots=True)
class Accepted:
    """A trigger that the other side took and that has not been resolved there."""

    channel: str
    dedup_key: str
    fallback_of: str | None = None
    receipt: str = ""


class Journal(Protocol):
    """Remembers deliveries over a crash; the store implements it. Every method may raise JournalError."""

    def claim(self, delivery: Delivery, now: float) -> bool:
        """Compare and set: False where another process has taken or finished it."""
        ...

    def record(self, deliveries: Sequence[Delivery], now: float) -> None:
        """Writes the state of deliveries, and for a finished one whether its key is now open at the other side."""
        ...


class NoJournal:
    """Remembers nothing: for tests of a channel and for `test-page`."""

    def claim(self, delivery: Delivery, now: float) -> bool:
        return True

    def record(self, deliveries: Sequence[Delivery], now: float) -> None:
        return None
