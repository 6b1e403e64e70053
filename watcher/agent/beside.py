"""Blocking work that may hang for ever: a thread of its own, one at a time, waited for no longer than a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from watcher.aside import aside

T = TypeVar("T")


class Beside(Generic[T]):
    """`late_count`: cycles in which the work was not done in time. While it hangs nothing new is started."""

    def __init__(self, work: Callable[[], T], deadline_real_seconds: float) -> None:
        self._work, self._deadline = work, deadline_real_seconds
        self._running: asyncio.Future[T] | None = None
        self.late_count = 0

    @property
    def hangs(self) -> bool:
        return self._running is not None

    async def answer(self) -> T | None:
        """What the work answers, also one that was begun in an earlier cycle; None: not yet. Raises what it raises."""
        if self._running is None:
            self._running = aside(self._work)
        await asyncio.wait({self._running}, timeout=self._deadline)
        if not self._running.done():
            self.late_count += 1
            return None
        done, self._running = self._running, None
        return done.result()
