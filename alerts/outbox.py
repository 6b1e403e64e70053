"""The queue between deciding and sending: nothing in it is lost, doubled on purpose, or out of order for its key.

It lives in memory and is journalled in the store: a full disk or a locked database delays no page. A crash may repeat
a message under the same key. Lock times are microseconds; nothing is sent or written to disk under the lock.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from alerts._circuit import Backoff
from alerts._delivery import Accepted, Delivery, DeliveryState, Journal, JournalError, NoJournal
from alerts._incident import bounded_key
from alerts._lane import Lane
from alerts.notification import Notification, Outcome, Rejected, Retry, Sent
from detectors.verdict import Severity

__all__ = [
    "Accepted", "Backoff", "ChannelHealth", "Delivery", "Journal", "JournalError", "NoJournal", "Outbox", "Ticks",
]  # fmt: skip


REFUSED_LATELY_SECONDS = 7200.0


class Ticks(Protocol):
    """The part of a clock that the outbox needs: unix seconds to record, monotonic seconds to wait."""

    def time(self) -> float: ...

    def monotonic(self) -> float: ...

    def wait(self, event: threading.Event, seconds: float) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelHealth:
    """How one channel does. `failing_since_at` is None while its last attempt worked or it has not tried."""

    channel: str
    pending: int
    failures: int = 0
    failing_since_at: float | None = None
    last_success_at: float | None = None
    last_rejected_at: float | None = None
    last_error: str = ""


class Outbox:
    """All channels' queues. Thread-safe."""

    def __init__(
        self, channels: Iterable[str], clock: Ticks, journal: Journal | None = None, *,
        fallbacks: Mapping[str, str] | None = None, backoff: Backoff | None = None,
        jitter: Callable[[], float] = random.random, fall_back_after_seconds: float = 300.0,
        give_up_after_seconds: float = 86_400.0, warn: Callable[[str], None] = lambda line: None,
    ) -> None:  # fmt: skip
        """`fallbacks`: channel -> the channel that carries its pages while it fails. `warn` gets readable lines."""
        self.clock, self.backoff = clock, backoff or Backoff()
        self._journal, self._fallbacks, self._jitter, self._warn = journal or NoJournal(), fallbacks or {}, jitter, warn
        self._fall_back_after, self._give_up_after = fall_back_after_seconds, give_up_after_seconds
        self._lanes = {name: Lane(name) for name in channels}
        self._lock = threading.Lock()
        self._next_id = 1
        self._unsaved: dict[int, Delivery] = {}
        self._journal_works = True
        self._counts: dict[tuple[str, str], int] = {}

    # -- filling

    def restore(self, deliveries: Iterable[Delivery], accepted: Iterable[Accepted], next_id: int) -> None:
        """What an earlier process left. A wait that was agreed on goes on, but never longer than the longest."""
        now, tick = self.clock.time(), self.clock.monotonic()
        with self._lock:
            self._next_id = max(self._next_id, next_id)
            for one in accepted:
                if one.channel in self._lanes:
                    self._lanes[one.channel].accepted[one.dedup_key] = one.fallback_of
                    self._lanes[one.channel].receipts[one.dedup_key] = one.receipt
            for delivery in sorted(deliveries, key=lambda one: one.id):
                wait = min(max(0.0, delivery.due_at - now), self.backoff.longest_wish_seconds)
                if delivery.channel in self._lanes:
                    self._lanes[delivery.channel].put(delivery, tick + wait)
                else:
                    self._count(delivery.channel, "dropped")
                    gone = replace(
                        delivery, state="dropped", finished_at=now, error="the channel is no longer in the config"
                    )
                    self._unsaved[delivery.id] = gone

    def prepare(self, messages: Sequence[tuple[str, Notification]]) -> list[Delivery]:
        """Numbered rows for (channel, notification); to be stored first and then given to `add`."""
        now = self.clock.time()
        with self._lock:
            wanted = [*messages]
            for channel, notification in messages:
                if notification.action == "resolve":
                    wanted += [(name, notification) for name in self._stand_ins(channel, notification.dedup_key)]
            return [self._row(channel, notification, now) for channel, notification in wanted]

    def add(self, deliveries: Iterable[Delivery], saved: bool = True) -> None:
        """Makes them due. `saved=False`: the store failed; they go out all the same and are saved when it can."""
        now, tick = self.clock.time(), self.clock.monotonic()
        with self._lock:
            for delivery in deliveries:
                lane = self._lanes.get(delivery.channel)
                if lane is None:
                    continue
                if not saved:
                    self._unsaved[delivery.id] = delivery
                for gone in lane.superseded_by(delivery):
                    self._finish(lane, gone, "dropped", now, "something newer was to be said")
                lane.put(delivery, tick)
                for gone in lane.overflow():
                    self._finish(lane, gone, "dropped", now, "the queue was full")
                lane.wake.set()

    def unsaved(self) -> list[Delivery]:
        """What the store still has to be told; give it back to `saved` afterwards."""
        with self._lock:
            return list(self._unsaved.values())

    def saved(self, deliveries: Iterable[Delivery]) -> None:
        with self._lock:
            for delivery in deliveries:
                if self._unsaved.get(delivery.id) is delivery:
                    del self._unsaved[delivery.id]

    # -- emptying

    def take(self, channel: str) -> Delivery | None:
        """The next one that is due, now claimed by the caller, who must `settle` it. None: nothing is due."""
        lane = self._lanes[channel]
        while True:
            with self._lock:
                delivery = lane.next_due(self.clock.monotonic())
                if delivery is None:
                    return None
                if _needs_trigger(delivery.notification) and delivery.dedup_key not in lane.accepted:
                    why = "its trigger was never accepted"
                    self._finish(lane, delivery, "dropped", self.clock.time(), why)
                    continue
                lane.in_flight.add(delivery.id)
            if self._claimed(delivery):
                return delivery
            with self._lock:
                lane.forget(delivery.id)

    def receipt(self, channel: str, notification: Notification) -> str:
        """Of the first message under its key, else of the trouble that it is a raise of; empty where there is none."""
        receipts = self._lanes[channel].receipts
        with self._lock:
            return receipts.get(notification.dedup_key) or receipts.get(bounded_key(notification.incident.key), "")

    def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        """Records how an attempt ended and when to try again."""
        now, tick = self.clock.time(), self.clock.monotonic()
        lane = self._lanes[delivery.channel]
        with self._lock:
            first_at = delivery.first_attempt_at if delivery.first_attempt_at is not None else now
            tried = replace(delivery, attempts=delivery.attempts + 1, first_attempt_at=first_at)
            lane.in_flight.discard(delivery.id)
            if isinstance(outcome, Sent):
                self._worked(lane, tried, outcome, now, tick)
            elif isinstance(outcome, Rejected) and not tried.minimal:
                self._count(lane.name, "rejected_once")
                again = replace(tried, minimal=True, error=outcome.error, due_at=now)
                lane.put(again, tick)
                self._unsaved[again.id] = again
            elif isinstance(outcome, Rejected):
                lane.last_rejected_at, lane.last_error = now, outcome.error
                lane.failing_since_at = lane.failing_since_at if lane.failing_since_at is not None else now
                self._finish(lane, self._fall_back(tried, now, tick), "rejected", now, outcome.error)
            else:
                self._retry(lane, tried, outcome, now, tick)
        self.flush()

    def flush(self) -> None:
        """Writes what the journal does not know yet; a failure is said once and tried again at each call."""
        waiting = self.unsaved()
        if not waiting:
            return
        try:
            self._journal.record(waiting, self.clock.time())
        except JournalError as error:
            self._journal_failed(error)
        else:
            self._journal_works = True
            self.saved(waiting)

    def wait(self, channel: str, stop: threading.Event) -> None:
        """Returns when something may be due for this channel, or when it is woken."""
        lane = self._lanes[channel]
        with self._lock:
            seconds = lane.seconds_until_due(self.clock.monotonic(), longest=60.0)
        if not stop.is_set():
            self.clock.wait(lane.wake, seconds)
        lane.wake.clear()

    def wake_all(self) -> None:
        for lane in self._lanes.values():
            lane.wake.set()

    # -- looking

    def health(self) -> list[ChannelHealth]:
        with self._lock:
            return [
                ChannelHealth(
                    channel=lane.name, pending=len(lane.pending), failures=lane.circuit.failures,
                    failing_since_at=lane.failing_since_at, last_success_at=lane.last_success_at,
                    last_rejected_at=lane.last_rejected_at, last_error=lane.last_error,
                )
                for lane in self._lanes.values()
            ]  # fmt: skip

    def known(self, channel: str) -> set[str]:
        """Keys that are open on the other side, or whose messages are under way."""
        lane = self._lanes.get(channel)
        if lane is None:
            return set()
        with self._lock:
            return {*lane.accepted, *(one.dedup_key for one in lane.pending.values())}

    def nobody_hears(self, now: float) -> bool:
        """Every channel that there is has been failing for longer than it takes to fall back, and has pages waiting or
        refused one lately; what failed once and has nothing to send since is no proof."""
        health = self.health()
        return bool(health) and all(self._is_deaf(one, now) for one in health)

    def _is_deaf(self, one: ChannelHealth, now: float) -> bool:
        long = one.failing_since_at is not None and now - one.failing_since_at >= self._fall_back_after
        refused = one.last_rejected_at is not None and now - one.last_rejected_at < REFUSED_LATELY_SECONDS
        return long and (one.pending > 0 or refused)

    def counts(self) -> dict[tuple[str, str], int]:
        """(channel, result) -> how often; results are sent, retry, rejected_once, rejected, dropped, fallback."""
        with self._lock:
            return dict(self._counts)

    # -- under the lock

    def _row(self, channel: str, notification: Notification, now: float, fallback_of: str | None = None) -> Delivery:
        number, self._next_id = self._next_id, self._next_id + 1
        return Delivery(
            id=number, channel=channel, notification=notification, created_at=now, due_at=now, fallback_of=fallback_of
        )

    def _worked(self, lane: Lane, tried: Delivery, outcome: Sent, now: float, tick: float) -> None:
        was_open = lane.circuit.open
        lane.circuit = lane.circuit.worked(tick)
        lane.last_success_at, lane.failing_since_at, lane.last_error = now, None, ""
        action, key = tried.notification.action, tried.dedup_key
        tried = replace(tried, receipt=lane.receipts.get(key) or outcome.receipt)
        if action == "trigger":
            lane.accepted[key], lane.receipts[key] = tried.fallback_of, tried.receipt
        elif action == "resolve":
            lane.accepted.pop(key, None)
            lane.receipts.pop(key, None)
        self._finish(lane, tried, "sent", now, outcome.trouble)
        if outcome.trouble:
            self._warn(f"channel {lane.name}: {outcome.trouble}")
        if was_open:
            lane.all_due(tick)

    def _retry(self, lane: Lane, tried: Delivery, outcome: Retry, now: float, tick: float) -> None:
        self._count(lane.name, "retry")
        lane.circuit = lane.circuit.failed(tick, self.backoff, self._jitter(), outcome.after_seconds)
        lane.failing_since_at = lane.failing_since_at if lane.failing_since_at is not None else now
        lane.last_error = outcome.error
        first_at = tried.first_attempt_at if tried.first_attempt_at is not None else now
        if now - lane.failing_since_at >= self._fall_back_after:
            self._fall_back_all(lane, now, tick)
        tried_enough = (
            tried.attempts * self.backoff.longest_wish_seconds >= self._give_up_after
        )  # a stepped clock is no day
        if now - first_at > self._give_up_after and tried_enough:
            self._finish(lane, tried, "dropped", now, f"given up: {outcome.error}")
            return
        if now - first_at >= self._fall_back_after:
            tried = self._fall_back(tried, now, tick)
        wait = self.backoff.wait(tried.attempts, self._jitter(), outcome.after_seconds)
        again = replace(tried, due_at=now + wait, error=outcome.error)
        lane.put(again, tick + wait)
        self._unsaved[again.id] = again

    def _fall_back_all(self, lane: Lane, now: float, tick: float) -> None:
        """Also what waits behind the one that is tried now and then: its turn may be hours away."""
        for waiting in [one for one in lane.pending.values() if one.id not in lane.in_flight]:
            carried = self._fall_back(waiting, now, tick)
            if carried is not waiting:
                lane.pending[carried.id] = self._unsaved[carried.id] = carried

    def _fall_back(self, tried: Delivery, now: float, tick: float) -> Delivery:
        """Asks the fallback channel to carry a page too, once, unless it has it already."""
        name = self._fallbacks.get(tried.channel)
        other = self._lanes.get(name or "")
        if tried.fell_back or other is None or tried.fallback_of or tried.notification.action != "trigger":
            return tried
        if not other.knows(tried.dedup_key):
            row = self._row(other.name, tried.notification, now, fallback_of=tried.channel)
            other.put(row, tick)
            other.wake.set()
            self._unsaved[row.id] = row
            self._count(tried.channel, "fallback")
        return replace(tried, fell_back=True)

    def _stand_ins(self, channel: str, dedup_key: str) -> list[str]:
        return [name for name, lane in self._lanes.items() if lane.stands_in(channel, dedup_key)]

    def _finish(self, lane: Lane, delivery: Delivery, state: DeliveryState, now: float, error: str) -> None:
        lane.forget(delivery.id)
        self._count(lane.name, state)
        self._unsaved[delivery.id] = replace(delivery, state=state, finished_at=now, error=error)
        lost = state in ("rejected", "dropped") and not delivery.notification.repeated
        if lost and delivery.notification.severity >= Severity.WARNING:
            self._warn(f"channel {lane.name}: {state} {delivery.notification.kind} of {delivery.dedup_key}: {error}")

    def _count(self, channel: str, result: str) -> None:
        self._counts[channel, result] = self._counts.get((channel, result), 0) + 1

    def _claimed(self, delivery: Delivery) -> bool:
        try:
            return self._journal.claim(delivery, self.clock.time())
        except JournalError as error:
            self._journal_failed(error)  # a page matters more than its bookkeeping
            return True

    def _journal_failed(self, error: JournalError) -> None:
        if self._journal_works:  # once: the log may lie on the same full disk
            self._warn(f"deliveries go on from memory: {error}")
        self._journal_works = False


def _needs_trigger(notification: Notification) -> bool:
    """What makes no sense where the beginning never arrived. An end that is said again was sent before."""
    return notification.action != "trigger" and not notification.repeated
