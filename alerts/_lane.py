"""One channel's queue: what is pending, what was accepted there, and how the channel does. Not locked by itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from alerts._circuit import Circuit
from alerts._delivery import Delivery
from detectors.verdict import Severity

MAX_PENDING = 1_000


class Lane:
    def __init__(self, name: str) -> None:
        self.name = name
        self.pending: dict[int, Delivery] = {}  # in order of their ids
        self.in_flight: set[int] = set()
        self.accepted: dict[str, str | None] = {}  # dedup key -> the channel it stands in for
        self.receipts: dict[str, str] = {}  # dedup key -> what its first message was answered
        self.circuit = Circuit()
        self.wake = threading.Event()
        self.failing_since_at: float | None = None
        self.last_success_at: float | None = None
        self.last_rejected_at: float | None = None
        self.last_error = ""
        self._due: dict[int, float] = {}  # monotonic

    def put(self, delivery: Delivery, due: float) -> None:
        self.pending[delivery.id] = delivery
        self._due[delivery.id] = due

    def forget(self, number: int) -> None:
        self.pending.pop(number, None)
        self._due.pop(number, None)
        self.in_flight.discard(number)

    def all_due(self, tick: float) -> None:
        for number in self._due:
            self._due[number] = min(self._due[number], tick)

    def next_due(self, tick: float) -> Delivery | None:
        """The worst that is due first, then the oldest; never one whose key has an older one under way."""
        if tick < self.circuit.not_before:
            return None
        due = [one for one in self._heads() if self._due[one.id] <= tick and one.id not in self.in_flight]
        return min(due, key=lambda one: (-int(one.notification.severity), one.id), default=None)

    def seconds_until_due(self, tick: float, longest: float) -> float:
        due = [self._due[one.id] for one in self._heads() if one.id not in self.in_flight]
        if not due:
            return longest
        return min(longest, max(0.0, min(due) - tick, self.circuit.not_before - tick))

    def superseded_by(self, newer: Delivery) -> list[Delivery]:
        """Reminders, updates and repetitions of the same key that nobody has seen and that the newer message makes
        moot."""
        if newer.notification.kind not in ("resolved", "escalated", "reminder"):
            return []
        return [
            one
            for one in self.pending.values()
            if one.dedup_key == newer.dedup_key
            and one.id not in self.in_flight
            and (one.notification.kind in ("updated", "reminder") or _both_repeat(one, newer))
        ]

    def overflow(self) -> list[Delivery]:
        """What has to go when the queue is full: the mildest and oldest, a critical page last of all."""
        too_many = len(self.pending) - MAX_PENDING
        if too_many <= 0:
            return []
        spare = [one for one in self.pending.values() if one.id not in self.in_flight]
        spare.sort(key=lambda one: (one.notification.action == "resolve", int(one.notification.severity), one.id))
        return [one for one in spare if one.notification.severity < Severity.CRITICAL][:too_many]

    def knows(self, dedup_key: str) -> bool:
        return dedup_key in self.accepted or any(one.dedup_key == dedup_key for one in self.pending.values())

    def stands_in(self, channel: str, dedup_key: str) -> bool:
        """True where this channel was told of the key in place of `channel` and not yet of its end."""
        waiting = [one for one in self.pending.values() if one.dedup_key == dedup_key and one.fallback_of == channel]
        return self.accepted.get(dedup_key) == channel or bool(waiting)

    def _heads(self) -> Iterator[Delivery]:
        seen: set[str] = set()
        for number in sorted(self.pending):
            delivery = self.pending[number]
            if delivery.dedup_key not in seen:
                seen.add(delivery.dedup_key)
                yield delivery


def _both_repeat(one: Delivery, other: Delivery) -> bool:
    return one.notification.repeated and other.notification.repeated
