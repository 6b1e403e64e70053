"""Logs on a shared file system that the daemon reads itself (`tail: daemon`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Protocol

from watcher.agent.follow import LogFollower
from watcher.agent.followed import FollowedEvent
from watcher.aside import aside
from watcher.clock import Clock
from watcher.daemon.fold import RunFold
from watcher.snapshot import LogLine, LogStatus

DEADLINE_SECONDS = 5.0


class LogReader(AbstractAsyncContextManager["LogReader"], Protocol):
    """Whatever the daemon reads of one run itself: logs, or steps from metrics."""

    fold: RunFold

    async def read(self) -> tuple[Sequence[LogLine], Sequence[LogStatus]]:
        """What is new, and how it stands. Never raises for what it reads."""


class SharedLogs(LogReader):
    """Reads in a thread with a deadline: a file system that hangs stops this log, not the daemon."""

    def __init__(self, fold: RunFold, follower: LogFollower, clock: Clock) -> None:
        self.fold = fold
        self._follower, self._clock = follower, clock
        self._reading: asyncio.Future[list[FollowedEvent]] | None = None
        self._seq = 0

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is held open between two reads."""

    async def read(self) -> tuple[Sequence[LogLine], Sequence[LogStatus]]:
        if self._reading is None:
            self._reading = aside(self._follower.poll)
        done, _ = await asyncio.wait({self._reading}, timeout=DEADLINE_SECONDS)
        if not done:
            return (), ()
        reading, self._reading = self._reading, None
        now = self._clock.time()
        return [self._line(event, now) for event in reading.result()], self._follower.statuses(now)

    def _line(self, event: FollowedEvent, now: float) -> LogLine:
        self._seq += 1
        return LogLine.model_construct(
            seq=self._seq,
            age_seconds=max(0.0, now - event.at),
            path=event.path,
            file=event.file,
            offset=event.offset,
            event=event.event,
        )
