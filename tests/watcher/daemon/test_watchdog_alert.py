"""The alert that is always there: said once a minute after good cycles, and never in their way."""

from __future__ import annotations

import asyncio
import threading

from alerts.notification import Outcome, Retry, Sent
from watcher.daemon.watchdog_alert import WatchdogAlert


class Manager:
    """Stands where Alertmanager is; `hangs` until it is set."""

    def __init__(self) -> None:
        self.said: list[tuple[float, float]] = []
        self.outcome: Outcome = Sent()
        self.go = threading.Event()
        self.go.set()

    def watchdog(self, since_at: float, now: float) -> Outcome:
        self.said.append((since_at, now))
        self.go.wait(10)
        return self.outcome


def test_it_is_said_once_a_minute() -> None:
    manager = Manager()

    async def play() -> None:
        alert = WatchdogAlert(manager, 1.0)  # type: ignore[arg-type]
        for second in range(0, 130, 10):
            alert.say_when_due(1000.0 + second, float(second))
            await alert._saying  # type: ignore[misc]

    asyncio.run(play())
    assert manager.said == [(1.0, 1000.0), (1.0, 1060.0), (1.0, 1120.0)]


def test_one_that_hangs_holds_up_no_cycle_and_a_failure_is_kept() -> None:
    manager = Manager()
    manager.go.clear()

    async def play() -> None:
        alert = WatchdogAlert(manager, 1.0, timeout_seconds=0.1)  # type: ignore[arg-type]
        alert.say_when_due(1000.0, 0.0)  # returns at once
        await alert._saying  # type: ignore[misc]
        assert alert.error == "no answer within 0.1 s"
        manager.go.set()
        manager.outcome = Retry("HTTP 503")
        alert.say_when_due(1060.0, 60.0)
        await alert._saying  # type: ignore[misc]
        assert alert.error == "HTTP 503"

    asyncio.run(play())
