"""Where the reading of a file begins: where it ended, at the start of a new file, near the end of an old one."""

from __future__ import annotations

import os
from dataclasses import dataclass

from watcher.agent.followed import FollowedFile
from watcher.agent.identity import place_of, why_not_text
from watcher.agent.left_behind import find_left_behind
from watcher.agent.positions import Position, Positions
from watcher.agent.tail import NotALog, Tail, open_log
from watcher.agent.tally import Tally
from watcher.config.logs import LogConfig

START_BYTES = 4 << 20  # of a log that is there before following begins
MAX_BACKLOG_BYTES = 256 << 20  # unread; more is skipped, to know the present before the past


@dataclass(frozen=True, slots=True)
class Beginning:
    """Opens the files of one path."""

    path: str
    config: LogConfig
    node: str
    positions: Positions
    tally: Tally

    def open(self, monotonic: float, *, existed: bool) -> FollowedFile:
        """What stands behind the path. `existed`: it was there when following began. Raises OSError."""
        fd = open_log(self.path)
        try:
            if (reason := why_not_text(fd)) is not None:
                raise NotALog(reason)
            tail = Tail(self.path, fd, place_of(os.fstat(fd).st_dev, self.node))
            known = self._known(tail, existed)
            if known is not None:
                tail.go_to(known)
            old = existed and known is None
            size = tail.stat().st_size
            if old and not self.config.from_start and size > START_BYTES:
                self._near_the_end(tail, size)
            self.keep_up(tail, size)
            return self._followed(tail, known, monotonic, first_until=size if old else 0)
        except BaseException:
            os.close(fd)
            raise

    def left_behind(self, monotonic: float, most: int) -> list[FollowedFile]:
        """Files that were read under this path before a restart and have lost it since, with more to read."""
        files = []
        for tail, known in find_left_behind(self.path, self.node, self.positions, most):
            try:
                files.append(self._followed(tail, known, monotonic))
                self.tally.rotations += 1
            except OSError:
                tail.close()
        return files

    def keep_up(self, tail: Tail, size: int) -> None:
        """Skips what is more than can be caught up with."""
        if size - tail.read_to > MAX_BACKLOG_BYTES:
            self._near_the_end(tail, size)

    def _near_the_end(self, tail: Tail, size: int) -> None:
        self.tally.skipped_bytes += size - START_BYTES - tail.read_to
        tail.start_at(size - START_BYTES)

    def _known(self, tail: Tail, existed: bool) -> Position | None:
        known = self.positions.get(tail.identity)
        if known is not None and not tail.still_holds(known):  # it began anew while nobody watched
            self.tally.rotations += 1
            return Position(self.path, 0, 0, b"", known.generation + 1)
        if known is None and not existed:
            originals = self.positions.of_original(self.path, tail.identity)
            return next((position for position in originals if tail.still_holds(position)), None)
        return known

    def _followed(self, tail: Tail, known: Position | None, monotonic: float, first_until: int = 0) -> FollowedFile:
        host = self.node if "%N" in self.config.path else None
        file = FollowedFile(tail, self.config, host, first_until)
        file.last_growth = monotonic
        if known is not None:
            file.prime(known, again=self.positions.take_up(tail.identity))
        return file
