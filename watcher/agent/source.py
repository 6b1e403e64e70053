"""One path that is followed by name: the file behind it now, and those that were behind it, read to their ends."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from watcher.agent.begin import Beginning
from watcher.agent.followed import FollowedEvent, FollowedFile
from watcher.agent.trouble import Trouble
from watcher.snapshot import LogStatus

DRAIN_SECONDS = 300.0  # how long a file that lost its name is waited for, since it last grew
MAX_DRAINING = 4  # files that lost this name
REFRESH_SECONDS = 30.0  # without growth, after which the path is opened anew
IDLE_SECONDS = 3_600.0  # without growth, after which the file is closed
T = TypeVar("T")
log = logging.getLogger(__name__)


class Source:
    """`existed`: the path was there when following began, so its old lines are history and not news."""

    def __init__(self, beginning: Beginning, *, existed: bool) -> None:
        self.path, self.config = beginning.path, beginning.config
        self._beginning, self._tally, self._existed = beginning, beginning.tally, existed
        self.current: FollowedFile | None = None
        self.draining: list[FollowedFile] = []
        self._trouble = Trouble(self.path, self._tally)
        self._gone = False
        self._size_bytes: int | None = None
        self._last: FollowedFile | None = None  # what a status tells of, also after it was closed
        self._closed: tuple[int, ...] | None = None  # how an idle file looked when it was closed

    def files(self) -> list[FollowedFile]:
        """All that are open, older ones first."""
        return self.draining + ([self.current] if self.current is not None else [])

    def holds(self, device: int, inode: int) -> bool:
        return any(file.is_file(device, inode) for file in self.files())

    def is_idle(self) -> bool:
        """Nothing is open: the path is gone, or has not grown for long."""
        return not self.files() and (self._gone or self._closed is not None)

    def at_end(self) -> bool:
        return all(file.at_end for file in self.files())

    def look(self, monotonic: float, others: list[Source]) -> None:
        """Opens what the path means now; what it meant before is left to be read to its end."""
        for file in self.files():
            file.at_end = False
        if self._trouble.waits(monotonic):
            return
        try:
            for file in list(self.draining):
                self._verify(file)
            status = os.stat(self.path)
            self._size_bytes, self._gone = status.st_size, False
            current = self.current
            if current is not None and current.is_file(status.st_dev, status.st_ino):
                if monotonic - current.last_growth > REFRESH_SECONDS:
                    self._or_close(current, current.tail.reopen)
                self._verify(current)
                self._beginning.keep_up(current.tail, status.st_size)
            elif not any(other is not self and other.holds(status.st_dev, status.st_ino) for other in others):
                self._open(status, monotonic)
            self._trouble.over()
        except (FileNotFoundError, NotADirectoryError):
            self._let_go()
            self._existed, self._size_bytes, self._gone = False, None, True
            self._trouble.missing()
        except OSError as error:
            self._trouble.failed(error, monotonic)

    def read(self, now: float, monotonic: float) -> list[FollowedEvent]:
        """The events of one slice of the oldest file that has more."""
        for file in self.files():
            if file.at_end:
                continue
            try:
                return self._or_close(file, partial(file.read, now, monotonic))
            except OSError as error:
                self._trouble.failed(error, monotonic)
                return []
        return []

    def tidy(self, now: float, monotonic: float) -> list[FollowedEvent]:
        """Closes files that have not grown for long; what unfinished lines and lost files still have to say."""
        events: list[FollowedEvent] = []
        for index, file in enumerate(list(self.draining)):
            over = file.at_end and monotonic - file.last_growth > DRAIN_SECONDS
            if over or index < len(self.draining) - MAX_DRAINING:
                events += file.finish(now)
                self._close(file)
        for file in self.files():
            events += file.settle(now, monotonic)
            self._tally.long_lines += file.tail.take_long_lines()
            self._beginning.positions.put(file.tail.identity, file.position)
        idle = self.current
        if idle is not None and idle.at_end and monotonic - idle.last_growth > IDLE_SECONDS:
            with suppress(OSError):
                self._closed = _looks(idle.tail.stat())
            self._close(idle)
        return events

    def describe(self) -> tuple[LogStatus, float | None]:
        """The status and when its last line was read."""
        file = self.current or (self.draining[-1] if self.draining else self._last)
        if file is None:
            return LogStatus(path=self.path, size_bytes=self._size_bytes, error=self._trouble.words), None
        status = LogStatus(
            path=self.path, file=file.tail.name, format=file.format, size_bytes=self._size_bytes,
            lines=file.tail.line_count, steps=file.steps, error=self._trouble.words, tail=file.recent.texts(),
        )  # fmt: skip
        return status, file.last_line_at

    def close(self) -> None:
        for file in self.files():
            self._close(file)

    def _verify(self, file: FollowedFile) -> None:
        """Whether the open file still holds what was read of it; it is read anew if not."""
        if self._or_close(file, file.check):
            self._tally.rotations += 1
            log.info("%s began anew", self.path)

    def _open(self, status: os.stat_result, monotonic: float) -> None:
        if self._closed == _looks(status):
            return
        file = next((f for f in self.draining if f.is_file(status.st_dev, status.st_ino)), None)
        if file is not None:  # a link that moved back
            self.draining.remove(file)
        else:
            file = self._beginning.open(monotonic, existed=self._existed)
            if self._last is None:
                self.draining += self._beginning.left_behind(monotonic, MAX_DRAINING)
            elif self._last.tail.name == file.tail.name:
                file.take_over(self._last)
        if self._last is not None and not self._last.is_file(status.st_dev, status.st_ino):
            self._tally.rotations += 1
            log.info("%s is another file now; the one before is read to its end", self.path)
        self._let_go()
        self.current = self._last = file
        self._closed, self._existed = None, False

    def _or_close(self, file: FollowedFile, work: Callable[[], T]) -> T:
        """What a failing file system left of a file is of no use: it is opened again, at its position."""
        try:
            return work()
        except OSError:
            self._close(file)
            raise

    def _let_go(self) -> None:
        if self.current is not None:
            self.draining.append(self.current)
            self.current = None

    def _close(self, file: FollowedFile) -> None:
        self._beginning.positions.put(file.tail.identity, file.position)
        if file is self.current:
            self.current = None
        else:
            self.draining.remove(file)
        file.tail.close()


def _looks(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
