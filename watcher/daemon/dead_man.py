"""Somebody outside hears from the daemon after each full good cycle, and pages when it falls silent."""

from __future__ import annotations

import logging

import requests

from alerts.secret import Secret, SecretError

log = logging.getLogger(__name__)
TIMEOUT_SECONDS = 10.0


class DeadManSwitch:
    """`ping` blocks for 10 s at most; call it in a thread. The URL is a secret: who knows it can keep it quiet."""

    def __init__(self, url: Secret, interval_seconds: float) -> None:
        self._url, self._interval = url, interval_seconds
        self._due_at = float("-inf")
        self.last_success_at: float | None = None
        self.error: str | None = None

    def is_due(self, monotonic: float) -> bool:
        return monotonic >= self._due_at

    def ping(self, now: float, monotonic: float) -> None:
        self._due_at = monotonic + self._interval
        try:
            with requests.get(self._url.reveal(), timeout=TIMEOUT_SECONDS, allow_redirects=False, stream=True) as reply:
                error = None if reply.status_code < 400 else f"HTTP {reply.status_code}"
        except requests.RequestException as failure:
            error = type(failure).__name__  # its text holds the URL
        except SecretError as failure:
            error = str(failure)
        if error is None:
            self.last_success_at = now
        elif self.error is None:
            log.warning("dead-man ping failed err=%s", error)
        self.error = error
