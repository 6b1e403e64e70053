"""One path that is followed by name: the file behind it now, and those that were behind it, read to their ends."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

from watcher.agent.file_errors import in_words
from watcher.agent.followed import FollowedEvent, FollowedFile
from watcher.agent.identity import place_of, why_not_text
from watcher.agent.left_behind import find_left_behind
from watcher.agent.positions import Position, Positions
from watcher.agent.tail import NotALog, Tail, open_log
from watcher.config.logs import LogConfig
from watcher.snapshot import LogStatus

START_BYTES = 4 << 20  # of a log that is there before following begins
MAX_BACKLOG_BYTES = 256 << 20  # unread; more is skipped, to know the present before the past
DRAIN_SECONDS = 300.0  # how long a file that lost its name is waited for, since it last grew
MAX_DRAINING = 4  # files that lost this name
REFRESH_SECONDS = 30.0  # without growth, after which the path is opened anew
IDLE_SECONDS = 3_600.0  # without growth, after which the file is closed
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 60.0
log = logging.getLogger(__name__)


@dataclass
class Tally:
    """Counters of a follower, from its start."""

    rotations: int = 0  # a path came to mean another file, or a file began anew
    errors: int = 0  # of the file system
    skipped_bytes: int = 0  # not read, because there were too many of them
    long_lines: int = 0  # cut


class Source:
    """`existed`: the path was there when following began, so its old lines are history and not news."""

    def __init__(
        self, path: str, config: LogConfig, node: str, positions: Positions, tally: Tally, *, existed: bool
    ) -> None:
        self.path, self.config, self._node = path, config, node
        self._host = node if "%N" in config.path else None
        self._positions, self._tally, self._existed = positions, tally, existed
        self.current: FollowedFile | None = None
        self.draining: list[FollowedFile] = []
        self._gone = False
        self._error: str | None = None
        self._size_bytes: int | None = None
        self._last: FollowedFile | None = None  # what a status tells of, also after it was closed
        self._closed: tuple[int, ...] | None = None  # how an idle file looked when it was closed
        self._retry_at, self._failures = 0.0, 0

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
        if monotonic < self._retry_at:
            return
        try:
            for file in list(self.draining):
                self._verify(file)
            status = os.stat(self.path)
            self._size_bytes, self._gone = status.st_size, False
            current = self.current
            if current is not None and current.is_file(status.st_dev, status.st_ino):
                if monotonic - current.last_growth > REFRESH_SECONDS:
                    self._refresh(current)
                self._verify(current)
            elif not any(other is not self and other.holds(status.st_dev, status.st_ino) for other in others):
                self._open(status, monotonic)
            self._error, self._failures = None, 0
        except (FileNotFoundError, NotADirectoryError):
            self._let_go()
            self._existed, self._size_bytes, self._gone = False, None, True
            self._error = "waiting for this file: it does not exist yet"
        except OSError as error:
            self._fail(error, monotonic)

    def read(self, now: float, monotonic: float) -> list[FollowedEvent]:
        """The events of one slice of the oldest file that has more."""
        for file in self.files():
            if file.at_end:
                continue
            try:
                events = file.read(now, monotonic)
                return events if not file.at_end else events + file.settle(now, monotonic)
            except OSError as error:
                file.at_end = True
                self._close(file)
                self._fail(error, monotonic)
                return []
        return []

    def tidy(self, now: float, monotonic: float) -> list[FollowedEvent]:
        """Closes files that have not grown for long; the last words of those that lost their name."""
        events: list[FollowedEvent] = []
        for index, file in enumerate(list(self.draining)):
            over = file.at_end and monotonic - file.last_growth > DRAIN_SECONDS
            if over or index < len(self.draining) - MAX_DRAINING:
                events += file.finish(now)
                self._close(file)
        idle = self.current
        if idle is not None and idle.at_end and monotonic - idle.last_growth > IDLE_SECONDS:
            self._closed = _looks(idle.tail.stat())
            self._close(idle)
        for file in self.files():
            self._positions.put(file.tail.identity, file.position)
        return events

    def describe(self) -> tuple[LogStatus, float | None]:
        """The status and when its last line was read."""
        file = self.current or (self.draining[-1] if self.draining else self._last)
        if file is None:
            return LogStatus(path=self.path, size_bytes=self._size_bytes, error=self._error), None
        status = LogStatus(
            path=self.path, file=file.tail.name, format=file.format, size_bytes=self._size_bytes,
            lines=file.tail.line_count, steps=file.steps, error=self._error, tail=file.recent.texts(),
        )  # fmt: skip
        return status, file.last_line_at

    def close(self) -> None:
        for file in self.files():
            self._close(file)

    def _verify(self, file: FollowedFile) -> None:
        """Whether the open file still holds what was read of it; it is read anew if not."""
        try:
            rewritten = file.check()
        except OSError:
            self._close(file)
            raise
        if rewritten:
            self._tally.rotations += 1
            log.info("%s began anew", self.path)

    def _refresh(self, file: FollowedFile) -> None:
        try:
            file.tail.reopen()
        except OSError:
            self._close(file)
            raise

    def _open(self, status: os.stat_result, monotonic: float) -> None:
        if self._closed == _looks(status):
            return
        returning = next((f for f in self.draining if f.is_file(status.st_dev, status.st_ino)), None)
        if returning is not None:  # a link that moved back
            self.draining.remove(returning)
            self._let_go()
            self.current = returning
            return
        fd = open_log(self.path)
        try:
            if (reason := why_not_text(fd)) is not None:
                raise NotALog(reason)
            file = self._begin(Tail(self.path, fd, place_of(status.st_dev, self._node)))
        except BaseException:
            os.close(fd)
            raise
        before = self._last
        if before is None:
            self._take_up_left_behind(monotonic)
        if before is not None and not before.is_file(status.st_dev, status.st_ino):
            self._tally.rotations += 1
            log.info("%s is another file now; the one before is read to its end", self.path)
        elif before is not None and before.tail.name == file.tail.name:
            file.steps, file.last_line_at = before.steps, before.last_line_at
        self._let_go()
        file.last_growth = monotonic
        self.current = self._last = file
        self._closed, self._existed = None, False

    def _begin(self, tail: Tail) -> FollowedFile:
        """Where reading begins: where it ended, or the start of a new file, or near the end of an old one."""
        known = self._positions.get(tail.identity)
        if known is not None and not tail.still_holds(known):
            known = Position(self.path, 0, 0, b"", known.generation + 1)
            self._tally.rotations += 1
        if known is None and not self._existed:
            originals = self._positions.of_original(self.path, tail.identity)
            known = next((position for position in originals if tail.still_holds(position)), None)
        if known is not None:
            tail.go_to(known)
        old = self._existed and known is None
        size = tail.stat().st_size
        if size - tail.read_to > (START_BYTES if old and not self.config.from_start else MAX_BACKLOG_BYTES):
            self._tally.skipped_bytes += size - START_BYTES - tail.read_to
            tail.start_at(size - START_BYTES)
        file = FollowedFile(tail, self.config, self._host, first_until=size if old else 0)
        if known is not None:
            file.prime(known)
        return file

    def _take_up_left_behind(self, monotonic: float) -> None:
        for tail, known in find_left_behind(self.path, self._node, self._positions, MAX_DRAINING):
            file = FollowedFile(tail, self.config, self._host)
            file.prime(known)
            file.last_growth = monotonic
            self.draining.append(file)
            self._tally.rotations += 1

    def _fail(self, error: OSError, monotonic: float) -> None:
        """Says it in words and tries again after a pause that grows."""
        self._tally.errors += 1
        self._retry_at = monotonic + min(MAX_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** min(self._failures, 10))
        self._failures += 1
        words = in_words(error)
        if self._error != words:
            log.warning("%s: %s", self.path, words)
        self._error = words

    def _let_go(self) -> None:
        if self.current is not None:
            self.draining.append(self.current)
            self.current = None

    def _close(self, file: FollowedFile) -> None:
        self._positions.put(file.tail.identity, file.position)
        self._tally.long_lines += file.tail.long_lines
        if file is self.current:
            self.current = None
        else:
            self.draining.remove(file)
        file.tail.close()


def _looks(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
