"""One open file: its new bytes as lines, as long as it is still the file whose bytes were read before."""

from __future__ import annotations

import os
import stat

from watcher.agent.identity import file_id, read_head
from watcher.agent.lines import LineSplitter, Piece
from watcher.agent.positions import Position

BEFORE_BYTES = 256  # in front of the read position; looked at again with every read
_PAGE = 4_096


class NotALog(OSError):
    """The path is no regular file."""


def open_log(path: str) -> int:
    """A descriptor for reading. Never waits for a writer; raises OSError, NotALog where it is no regular file."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise NotALog(f"{path} is not a regular file")
    except BaseException:
        os.close(fd)
        raise
    return fd


class Tail:
    """Owns the descriptor. Every call may block as long as the file system likes, and may raise OSError.

    A file is the same as long as the bytes in front of the read position and its first line are. Its size is not
    asked: it may be out of date on a network file system, and says nothing once a truncated file has grown again.
    """

    def __init__(self, path: str, fd: int, place: str) -> None:
        self.path, self.place, self._fd = path, place, fd
        status = os.fstat(fd)
        self.device, self.inode = status.st_dev, status.st_ino
        self._head = read_head(fd)
        self._lives: dict[str, int] = {}  # earlier ones of this file, with their generation
        self.go_to(Position(path, 0, 0, b""))

    def go_to(self, position: Position) -> None:
        """Goes on where an earlier reader of this file stopped."""
        self.generation = position.generation
        self._end = position.offset  # of what was read
        self._before = position.before
        self._settled_before = position.before
        self._lines = LineSplitter(position.offset, position.lines)

    def start_at(self, offset: int) -> None:
        """Goes on in the middle, at the next line after `offset`; lines that are skipped are not counted."""
        self._end = offset
        self._before = self._settled_before = b""
        self._lines = LineSplitter(offset, self._lines.lines, inside_a_line=offset > 0)

    @property
    def identity(self) -> str:
        """Of the file on its disk."""
        return file_id(self.place, self.inode, self._head)

    @property
    def name(self) -> str:
        """Of this life of the file: what an event carries; differs when it was truncated and begins as before."""
        return f"{self.identity}#{self.generation}" if self.generation else self.identity

    @property
    def position(self) -> Position:
        return Position(self.path, self._lines.offset, self._lines.lines, self._settled_before, self.generation)

    @property
    def read_to(self) -> int:
        return self._end

    @property
    def line_count(self) -> int:
        return self._lines.lines

    def take_long_lines(self) -> int:
        """How many lines were cut since the last call."""
        count, self._lines.long_lines = self._lines.long_lines, 0
        return count

    def stat(self) -> os.stat_result:
        return os.fstat(self._fd)

    def still_holds(self, position: Position) -> bool:
        """Whether the bytes in front of a position are the ones that were there."""
        before = position.before
        return os.pread(self._fd, len(before), position.offset - len(before)) == before

    def was_rewritten(self) -> bool:
        """Whether what was read is no longer there: truncated, with or without new content."""
        kept = os.pread(self._fd, len(self._before), self._end - len(self._before))
        return kept != self._before or os.pread(self._fd, len(self._head), 0) != self._head

    def begin_anew(self) -> None:
        """Reads the rewritten file from its first byte."""
        if self._head:
            self._lives[self.identity] = self.generation
        self.go_to(Position(self.path, 0, 0, b""))
        self._learn_head()

    def _learn_head(self) -> None:
        self._head = read_head(self._fd)
        if self.identity in self._lives:
            self.generation = self._lives[self.identity] + 1

    def read(self, limit: int) -> list[Piece] | None:
        """At most `limit` bytes as lines. None at the end of the file, and where it was rewritten under our hands."""
        seen = os.pread(self._fd, len(self._before) + limit, self._end - len(self._before))
        data = seen[len(self._before) :]
        if not data or not seen.startswith(self._before):
            return None
        if not self._head:
            self._learn_head()
        if data[0] == 0 and not data[:_PAGE].strip(b"\0") and self._over_hole():
            return []
        pieces = self._lines.feed(data)
        self._end += len(data)
        self._before = seen[-BEFORE_BYTES:]
        settled = self._lines.offset - (self._end - len(seen))
        if settled > 0:
            self._settled_before = seen[max(0, settled - BEFORE_BYTES) : settled]
        return pieces

    def settle(self) -> list[Piece]:
        """After a quiet time: what can be said of an unfinished line."""
        pieces = self._lines.settle()
        if self._lines.offset == self._end:
            self._settled_before = self._before
        return pieces

    def read_before(self, size: int) -> Piece | None:
        """Whole lines in front of the position, at most `size` bytes: to learn again what they said."""
        start = max(0, self._lines.offset - size)
        data = os.pread(self._fd, self._lines.offset - start, start)
        cut = data.find(b"\n") + 1 if start else 0
        number = max(1, self._lines.lines + 1 - data.count(b"\n", cut))
        return Piece("lines", data[cut:], start + cut, number) if data[cut:] else None

    def reopen(self) -> None:
        """Opens the path again where it is still this file: makes an NFS client ask the server for its true size."""
        fd = open_log(self.path)
        status = os.fstat(fd)
        if (status.st_dev, status.st_ino) == (self.device, self.inode):
            self._fd, fd = fd, self._fd
        os.close(fd)

    def close(self) -> None:
        os.close(self._fd)

    def _over_hole(self) -> bool:
        """Steps over a hole: what a truncation leaves under a writer that goes on where it was."""
        try:
            there = os.lseek(self._fd, self._end, os.SEEK_DATA)
        except OSError:  # nothing but a hole up to the end, or a file system that cannot tell
            there = os.fstat(self._fd).st_size
        if there <= self._end:
            return False
        self._end = there
        self._lines.jump(there)
        self._before = self._settled_before = b""
        return True
