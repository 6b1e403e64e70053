"""Somebody outside hears from the daemon after each full good cycle, and pages when it falls silent."""

from __future__ import annotations

import asyncio
import logging
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from alerts.secret import Secret, SecretError

log = logging.getLogger(__name__)
TIMEOUT_SECONDS = 10.0  # in all, whatever the other side does: also one that sends a byte now and then
Signal = Literal["start", "success", "fail"]


class DeadManSwitch:
    """Pings beside the cycles, which never wait for it. The URL is a secret: who knows it can keep it quiet."""

    def __init__(
        self, url: Secret, interval_seconds: float, timeout_seconds: float = TIMEOUT_SECONDS,
        start_and_fail: bool = False,
    ) -> None:  # fmt: skip
        """`start_and_fail`: the other side also knows URL/start and URL/fail, as healthchecks does."""
        self._url, self._interval, self._start_and_fail = url, interval_seconds, start_and_fail
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._due_at: dict[Signal, float] = {}
        self._asking: asyncio.Task[None] | None = None
        self.last_success_at: float | None = None
        self.error: str | None = None

    def started(self, now: float) -> None:
        """Says that a process has begun, where that is understood. In the running loop, as all of these."""
        if self._start_and_fail:
            self._send("start", now, "")

    def ping_when_due(self, now: float, monotonic: float) -> None:
        """All is well. One at a time."""
        self._when_due("success", now, monotonic, "")

    def fail_when_due(self, reason: str, now: float, monotonic: float) -> None:
        """Says that it runs and does not work, where that is understood; else silence says so, later."""
        if self._start_and_fail:
            self._when_due("fail", now, monotonic, reason)

    def _when_due(self, signal: Signal, now: float, monotonic: float, text: str) -> None:
        if monotonic < self._due_at.get(signal, float("-inf")) or self._is_asking():
            return
        self._due_at = {signal: monotonic + self._interval}  # a change is said at once
        self._send(signal, now, text)

    def _send(self, signal: Signal, now: float, text: str) -> None:
        self._asking = asyncio.get_running_loop().create_task(self._ping(signal, now, text))

    def _is_asking(self) -> bool:
        return self._asking is not None and not self._asking.done()

    async def _ping(self, signal: Signal, now: float, text: str) -> None:
        try:
            url = _place(self._url.reveal(), signal)
            async with aiohttp.ClientSession(timeout=self._timeout, trust_env=True) as session:  # a proxy leads outside
                asking = (
                    session.post(url, data=text.encode(), allow_redirects=False)
                    if text
                    else session.get(url, allow_redirects=False)
                )
                async with asking as reply:
                    error = None if 200 <= reply.status < 300 else f"HTTP {reply.status}"
        except SecretError as failure:
            error = str(failure)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as failure:
            error = type(failure).__name__  # its text holds the URL
        if error is None and signal == "success":
            self.last_success_at = now
        elif error is not None and self.error is None:
            log.warning("dead-man ping failed signal=%s err=%s", signal, error)
        self.error = error


def _place(url: str, signal: Signal) -> str:
    """healthchecks hears of other things than success below the URL, before its query."""
    if signal == "success":
        return url
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{signal}"))
