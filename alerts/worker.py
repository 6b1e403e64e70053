"""One thread per channel: takes what is due, sends it outside any lock, and gives up waiting at a total deadline."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from alerts._hang_up import Line, use
from alerts.notification import Notification, Outcome, Retry
from alerts.outbox import Outbox

DEADLINE_SECONDS = 30.0
MAX_STUCK = 3


class Channel(Protocol):
    """A way to reach a person. `minimal`: the smallest form that still says what and where. Never raises on purpose;
    what it raises all the same counts as a failed attempt."""

    def send(self, notification: Notification, minimal: bool = False) -> Outcome: ...


Runner = Callable[[Callable[[], Outcome], float], Outcome]


class BoundedRunner:
    """Runs a call in a thread and stops waiting at the deadline: no name server, TLS handshake or mail server that
    never greets can hold up the channel's queue. Calls that never return are abandoned, at most MAX_STUCK of them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._stuck: list[threading.Thread] = []

    def __call__(self, call: Callable[[], Outcome], seconds: float) -> Outcome:
        self._stuck = [thread for thread in self._stuck if thread.is_alive()]
        if len(self._stuck) >= MAX_STUCK:
            return Retry(f"{len(self._stuck)} earlier attempts still hang")
        answer: list[Outcome] = []
        line = Line()

        def attempt() -> None:
            use(line)
            answer.append(call())

        thread = threading.Thread(target=attempt, name=f"send-{self._name}", daemon=True)
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            line.hang_up()  # a server that drips one byte at a time would hold it for days
            self._stuck.append(thread)
            return Retry(f"no answer within {seconds:g} s")
        return answer[0] if answer else Retry("the attempt ended without a result")


class Worker:
    """`start` runs it in a thread; `step` does one round and is all there is to test."""

    def __init__(
        self, name: str, channel: Channel, outbox: Outbox, *, deadline_seconds: float = DEADLINE_SECONDS,
        runner: Runner | None = None,
    ) -> None:  # fmt: skip
        self.name, self._channel, self._outbox, self._deadline = name, channel, outbox, deadline_seconds
        self._run_bounded = runner or BoundedRunner(name)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def step(self) -> bool:
        """Sends the next delivery that is due. False: there was none."""
        delivery = self._outbox.take(self.name)
        if delivery is None:
            return False
        message = replace(
            delivery.notification, sent_at=self._outbox.clock.time(),
            receipt=self._outbox.receipt(self.name, delivery.notification),
        )  # fmt: skip
        outcome = self._run_bounded(lambda: self._attempt(message, delivery.minimal), self._deadline)
        self._outbox.settle(delivery, outcome)
        return True

    def _attempt(self, notification: Notification, minimal: bool) -> Outcome:
        try:
            return self._channel.send(notification, minimal)
        except Exception as error:  # noqa: BLE001 - a broken channel must not end its worker; its text may hold a URL
            return Retry(f"the channel failed with {type(error).__name__}")

    def start(self) -> None:
        self._thread = threading.Thread(target=self._loop, name=f"deliver-{self.name}", daemon=True)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Asks the thread to end and waits that long for the attempt it is in."""
        self._stop.set()
        self._outbox.wake_all()
        if self._thread is not None:
            self._thread.join(seconds)

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _loop(self) -> None:
        while not self._stop.is_set():
            if not self.step():
                self._outbox.wait(self.name, self._stop)
