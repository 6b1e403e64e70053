"""An alert at Alertmanager that is there while all is well: its end is told by whoever Alertmanager sends it to."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from alerts.channels.alertmanager import RESEND_SECONDS, Alertmanager
from alerts.notification import Sent
from alerts.worker import BoundedRunner

log = logging.getLogger(__name__)
TIMEOUT_SECONDS = 15.0  # in all


class WatchdogAlert:
    """Said again each minute after a good cycle, beside the cycles, which never wait for it."""

    def __init__(self, channel: Alertmanager, since_at: float, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._channel, self._since_at, self._timeout = channel, since_at, timeout_seconds
        self._run = BoundedRunner("watchdog-alert")
        self._due_at = float("-inf")
        self._saying: asyncio.Task[None] | None = None
        self.error: str | None = None

    def say_when_due(self, now: float, monotonic: float) -> None:
        """In the running loop; one at a time."""
        if monotonic < self._due_at or (self._saying is not None and not self._saying.done()):
            return
        self._due_at = monotonic + RESEND_SECONDS
        self._saying = asyncio.get_running_loop().create_task(self._say(now))

    async def _say(self, now: float) -> None:
        said = partial(self._channel.watchdog, self._since_at, now)
        outcome = await asyncio.to_thread(self._run, said, self._timeout)
        error = None if isinstance(outcome, Sent) else outcome.error
        if error is not None and self.error is None:
            log.warning("watchdog alert failed err=%s", error)
        self.error = error
