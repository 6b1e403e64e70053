"""The whole way from what was judged to messages on their way, in one call: step, decide, write, store, queue."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from alerts import lifecycle
from alerts._self_watch import delivery_judgements, store_judgement
from alerts.facts import RunFacts
from alerts.incidents import Hysteresis, Incident, Judged, StepResult, Transition, step
from alerts.notification import Notification
from alerts.outbox import Accepted, Delivery, Journal, JournalError, Outbox, Ticks
from alerts.policy import AlertPolicy, Decision, Intent, Silence, Told, decide
from alerts.render import bare, notification

MAX_UNSAVED_TRANSITIONS = 10_000
TELL_AGAIN_SECONDS = 3600.0  # after a message was refused or given up, while what it is about is open


class Remembered(Protocol):
    """What the store answers to `load`."""

    incidents: dict[str, Incident]
    told: dict[str, dict[str, Told]]
    deliveries: list[Delivery]
    accepted: list[Accepted]
    next_id: int


class Records(Journal, Protocol):
    """The store as this floor sees it. Every method may raise JournalError."""

    def load(self) -> Remembered: ...

    def commit(
        self, result: StepResult, told: Mapping[str, Mapping[str, Told]], deliveries: Sequence[Delivery], now: float
    ) -> None: ...


class UnknownIncident(Exception):
    """No incident of that key is open."""


class AlertDesk:
    """Thread-safe. Sending happens in the workers of the outbox; nothing here waits for a channel."""

    def __init__(
        self, store: Records, outbox: Outbox, policy: AlertPolicy, clock: Ticks, *,
        hysteresis: Hysteresis | None = None, public_url: str = "", link_key: bytes | None = None,
        warn: Callable[[str], None] = lambda line: None,
    ) -> None:  # fmt: skip
        """Takes up what the store remembers; `link_key` signs acknowledge links. Raises JournalError where the store
        cannot be read."""
        self.outbox, self.clock, self.link_key, self.public_url = outbox, clock, link_key, public_url
        self._store, self._policy, self._hysteresis, self._warn = store, policy, hysteresis or Hysteresis(), warn
        self._lock = threading.Lock()
        before = store.load()
        self._incidents: Mapping[str, Incident] = before.incidents
        self._told: dict[str, dict[str, Told]] = before.told
        self._unsaved: list[Transition] = []
        self._unheard: dict[tuple[str, str], float] = {}  # (incident, channel) -> since when it is known to be lost
        self._facts: Mapping[str, RunFacts] = {}
        self.store_error: str | None = None
        self.decision = Decision((), (), before.told)  # the last one: why each channel was told or not
        outbox.restore(before.deliveries, before.accepted, before.next_id)

    @property
    def incidents(self) -> Mapping[str, Incident]:
        """By key: suspects, open ones, and those that ended a short while ago."""
        return self._incidents

    @property
    def silences(self) -> tuple[Silence, ...]:
        return self._policy.silences

    def evaluate(
        self, judged: Sequence[Judged], facts: Mapping[str, RunFacts] | None = None, now: float | None = None
    ) -> tuple[Transition, ...]:
        """One evaluation of everything. The watchdog's own troubles are judged along."""
        at = self.clock.time() if now is None else now
        with self._lock:
            self._facts = facts if facts is not None else self._facts
            own = [*delivery_judgements(self.outbox.health(), at), store_judgement(self.store_error, at)]
            return self._go_on(step(self._incidents, [*judged, *own], at, self._hysteresis), at)

    def acknowledge(self, key: str, by: str) -> Incident:
        """Stops reminders and escalation, also of what went out on the same page, and of the rest of that page where
        this one is over. Raises UnknownIncident."""
        with self._lock:
            company = self._company(key)
            keys = [key, *company] if self._is_open(key) or not company else company
            return self._change(keys, lambda one, now: lifecycle.acknowledge(one, by, now))

    def company(self, key: str) -> list[str]:
        """Keys of the other incidents that were told on the same page, that are open and that nobody has."""
        with self._lock:
            return self._company(key)

    def snooze(self, key: str, until_at: float, by: str) -> Incident:
        """Nothing is sent about it until then; what is still open then is said. Raises UnknownIncident."""
        with self._lock:
            return self._change([key], lambda one, now: lifecycle.snooze(one, until_at, by, now))

    def close(self, key: str, why: str, by: str) -> Incident:
        """Ends it by hand, e.g. as a false alarm; it stays quiet until it was clear once. Raises UnknownIncident."""
        with self._lock:
            return self._change([key], lambda one, now: lifecycle.close(one, why, by, now))

    def silence(self, silence: Silence) -> None:
        """A maintenance window, checked at every send; one of the same name is replaced."""
        with self._lock:
            now = self.clock.time()
            kept = tuple(one for one in self._policy.silences if one.name != silence.name and one.until_at > now)
            self._policy = replace(self._policy, silences=(*kept, silence))

    def end_silence(self, name: str) -> None:
        """From now on; what is open is said at the next evaluation."""
        with self._lock:
            kept = tuple(one for one in self._policy.silences if one.name != name)
            self._policy = replace(self._policy, silences=kept)

    def _company(self, key: str) -> list[str]:
        pages = {(channel, page) for channel, told in self._told.get(key, {}).items() for page in told.dedup_keys}
        others = (other for other, told in self._told.items() if other != key and pages & _pages(told))
        return [other for other in others if self._is_open(other) and self._incidents[other].acknowledged_at is None]

    def _is_open(self, key: str) -> bool:
        return key in self._incidents and self._incidents[key].state != "resolved"

    def _change(self, keys: Sequence[str], change: Callable[[Incident, float], Transition]) -> Incident:
        """All of them at once; answers the first."""
        if not self._is_open(keys[0]):
            raise UnknownIncident(f"no incident {keys[0]!r} is open")
        now = self.clock.time()
        transitions = tuple(change(self._incidents[key], now) for key in keys)
        after = {one.incident.key: one.incident for one in transitions}
        self._go_on(StepResult({**self._incidents, **after}, transitions), now)
        return transitions[0].incident

    def _heard(self, now: float) -> Mapping[str, Mapping[str, Told]]:
        """What was told, without what neither arrived nor waits since an hour: a key was mended meanwhile, perhaps."""
        known = {channel: self.outbox.known(channel) for channel in self._policy.channels}
        lost = [
            (key, channel)
            for key, channels in self._told.items()
            for channel, told in channels.items()
            if channel in known and not told.ended and known[channel].isdisjoint(told.dedup_keys)
        ]
        self._unheard = {pair: self._unheard.get(pair, now) for pair in lost}
        due = {pair for pair, since in self._unheard.items() if now - since >= TELL_AGAIN_SECONDS}
        if not due:
            return self._told
        return {
            key: {channel: told for channel, told in channels.items() if (key, channel) not in due}
            for key, channels in self._told.items()
        }

    def _write(self, intent: Intent, now: float) -> Notification:
        facts = self._facts.get(intent.incident.run or "")
        try:
            return notification(intent, now, facts, self.public_url, self.link_key)
        except Exception as error:  # noqa: BLE001 - whatever a detector or a log has put into it: the page goes out
            self._warn(f"page of {intent.incident.key} goes out without its details: {type(error).__name__}")
            return notification(bare(intent), now, None, self.public_url, self.link_key)

    def _go_on(self, result: StepResult, now: float) -> tuple[Transition, ...]:
        decision = decide(result.incidents, self._heard(now), self._policy, now)
        messages = [(intent.channel, self._write(intent, now)) for intent in decision.intents]
        deliveries = self.outbox.prepare(messages)
        late = self.outbox.unsaved()
        everything = StepResult(result.incidents, (*self._unsaved, *result.transitions))
        try:
            self._store.commit(everything, decision.told, [*late, *deliveries], now)
        except JournalError as error:
            if self.store_error is None:
                self._warn(f"going on from memory: {error}")
            self.store_error = str(error)
            self._unsaved = list(everything.transitions[-MAX_UNSAVED_TRANSITIONS:])
        else:
            self.store_error, self._unsaved = None, []
            self.outbox.saved(late)
        self._incidents, self._told, self.decision = result.incidents, decision.told, decision
        self.outbox.add(deliveries, saved=self.store_error is None)  # a page goes out after its commit, or without one
        return result.transitions


def _pages(told: Mapping[str, Told]) -> set[tuple[str, str]]:
    """(channel, key) of what is not over there."""
    return {(channel, key) for channel, one in told.items() if not one.ended for key in one.dedup_keys}
