"""Somebody outside hears from the daemon after each full good cycle, and pages when it falls silent."""

from __future__ import annotations

import asyncio
import logging

import aiohttp

from alerts.secret import Secret, SecretError

log = logging.getLogger(__name__)
TIMEOUT_SECONDS = 10.0  # in all, whatever the other side does: also one that sends a byte now and then


class DeadManSwitch:
    """Pings beside the cycles, which never wait for it. The URL is a secret: who knows it can keep it quiet."""

    def __init__(self, url: Secret, interval_seconds: float, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._url, self._interval = url, interval_seconds
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._due_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self.last_success_at: float | None = None
        self.error: str | None = None

    def ping_when_due(self, now: float, monotonic: float) -> None:
        """Starts a ping in the running loop, one at a time."""
        if monotonic < self._due_at or (self._asking is not None and not self._asking.done()):
            return
        self._due_at = monotonic + self._interval
        self._asking = asyncio.get_running_loop().create_task(self._ping(now))

    async def _ping(self, now: float) -> None:
        try:
            async with (
                aiohttp.ClientSession(timeout=self._timeout, trust_env=True) as session,  # a proxy may lead outside
                session.get(self._url.reveal(), allow_redirects=False) as reply,
            ):
                error = None if reply.status < 400 else f"HTTP {reply.status}"
        except SecretError as failure:
            error = str(failure)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as failure:
            error = type(failure).__name__  # its text holds the URL
        if error is None:
            self.last_success_at = now
        elif self.error is None:
            log.warning("dead-man ping failed err=%s", error)
        self.error = error
