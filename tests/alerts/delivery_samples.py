"""A desk with scripted channels on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from alerts.desk import AlertDesk
from alerts.incidents import Hysteresis
from alerts.notification import Notification, Outcome, Sent
from alerts.outbox import Backoff, Outbox
from alerts.policy import AlertPolicy, ChannelTraits
from alerts.worker import Channel, Worker
from watcher.clock import FakeClock
from watcher.daemon.store import Store

PAGER = ChannelTraits(keeps_state=True, escalates=True)
CHAT = ChannelTraits()


class Scripted:
    """Answers by script, then `Sent`; keeps what it was handed and at what time."""

    def __init__(self, clock: FakeClock, *script: Outcome) -> None:
        self.clock, self.script = clock, list(script)
        self.seen: list[tuple[float, Notification]] = []
        self.minimal: list[bool] = []
        self.answer: Callable[[Notification], Outcome] | None = None

    def send(self, notification: Notification, minimal: bool = False) -> Outcome:
        self.seen.append((self.clock.now, notification))
        self.minimal.append(minimal)
        if self.script:
            return self.script.pop(0)
        return self.answer(notification) if self.answer is not None else Sent()

    @property
    def kinds(self) -> list[str]:
        return [notification.kind for _, notification in self.seen]


class House:
    """Store, outbox, desk and workers as the daemon has them, without threads. `kill` drops all of it mid-way."""

    def __init__(
        self, folder: Path, clock: FakeClock, channels: dict[str, tuple[Channel, ChannelTraits]],
        hysteresis: Hysteresis | None = None, fallbacks: dict[str, str] | None = None,
        deadline_seconds: float | None = None, **policy: Any,
    ) -> None:  # fmt: skip
        """`deadline_seconds`: attempts run in threads that are given up after so long on the wall."""
        self.folder, self.clock, self.channels = folder, clock, channels
        self.hysteresis, self.fallbacks = hysteresis or Hysteresis(), fallbacks or {}
        self.deadline_seconds = deadline_seconds
        self.policy = AlertPolicy(channels={name: traits for name, (_, traits) in channels.items()}, **policy)
        self.warnings: list[str] = []
        self.start()

    def start(self) -> None:
        self.store = Store(self.folder / "runwatch.db", self.clock.now, busy_seconds=0.05)
        self.outbox = Outbox(
            self.channels, self.clock, self.store, fallbacks=self.fallbacks, backoff=Backoff(), jitter=lambda: 0.5,
            warn=self.warnings.append,
        )  # fmt: skip
        self.desk = AlertDesk(
            self.store, self.outbox, self.policy, self.clock, hysteresis=self.hysteresis, warn=self.warnings.append
        )
        self.workers = [
            Worker(name, channel, self.outbox, runner=lambda call, _: call())
            if self.deadline_seconds is None
            else Worker(name, channel, self.outbox, deadline_seconds=self.deadline_seconds)
            for name, (channel, _) in self.channels.items()
        ]

    def kill(self) -> None:
        """As SIGKILL would: nothing is flushed or closed in an orderly way by our code."""
        self.store._db.close()
        del self.desk, self.outbox, self.workers, self.store

    def deliver(self) -> None:
        while sum(worker.step() for worker in self.workers):
            pass

    def tick(self, *judged: Any, deliver: bool = True) -> list[str]:
        events = [transition.event for transition in self.desk.evaluate(judged)]
        if deliver:
            self.deliver()
        return events

    def run(self, seconds: float, judged: Sequence[Any] = (), every: float = 10.0) -> None:
        until = self.clock.now + seconds
        while self.clock.now < until:
            self.clock.advance(min(every, until - self.clock.now))
            self.tick(*judged)
