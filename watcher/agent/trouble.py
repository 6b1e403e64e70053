"""What keeps a path from being read: said in words once, tried again after pauses that grow."""

from __future__ import annotations

import logging

from watcher.agent.file_errors import in_words
from watcher.agent.tally import Tally

FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 60.0
log = logging.getLogger(__name__)


class Trouble:
    def __init__(self, path: str, tally: Tally) -> None:
        self.words: str | None = None
        self._path, self._tally = path, tally
        self._retry_at, self._failures = float("-inf"), 0

    def waits(self, monotonic: float) -> bool:
        return monotonic < self._retry_at

    def over(self) -> None:
        self.words, self._failures = None, 0

    def missing(self) -> None:
        """No fault: it may come at any time, so there is no pause."""
        self.words = "waiting for this file: it does not exist yet"

    def failed(self, error: OSError, monotonic: float) -> None:
        self._tally.errors += 1
        self._retry_at = monotonic + min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures, 10))
        self._failures += 1
        words = in_words(error)
        if self.words != words:
            log.warning("%s: %s", self._path, words)
        self.words = words
