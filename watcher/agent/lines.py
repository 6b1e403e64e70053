"""Bytes of a log to lines, where the bytes arrive in any pieces: cut in a number, in a letter, in a `\\r\\n`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

MAX_PENDING_BYTES = 65_536  # of a line that has not ended; the rest of it is skipped and counted
_END = re.compile(rb"[\r\n]")


@dataclass(frozen=True, slots=True)
class Piece:
    """What can be read now. `offset` is where its first byte stands in the file, `number` the number of its line.

    lines     whole lines, each with its `\\n`; the first may be the rest of one whose parts were given before
    part      one state of a line that is redrawn with `\\r`, and may never end
    fragment  a line without an end that has been quiet: the rest may come, and then it comes as `lines` once more
    """

    kind: Literal["lines", "part", "fragment"]
    data: bytes
    offset: int
    number: int


class LineSplitter:
    """Keeps at most MAX_PENDING_BYTES, whatever it is fed."""

    def __init__(self, offset: int = 0, lines: int = 0, *, inside_a_line: bool = False) -> None:
        self.offset = offset  # of the first byte that was not given out
        self.lines = lines  # that have ended
        self.long_lines = 0
        self._pending = b""
        self._skipped: int | None = 0 if inside_a_line else None  # bytes of a line that is not kept
        self._last_part: bytes | None = None  # of the line that is being redrawn
        self._shown = False

    def feed(self, data: bytes) -> list[Piece]:
        """The next bytes of the file to the lines and parts that ended in them."""
        out: list[Piece] = []
        self._shown = False
        if self._skipped is not None:
            data = self._skip(data, out)
        data = self._pending + data
        end = data.rfind(b"\n") + 1
        if end:
            out.append(Piece("lines", data[:end], self.offset, self.lines + 1))
            self.lines += data.count(b"\n", 0, end)
            self.offset += end
            self._last_part = None
            data = data[end:]
        data = self._parts(data, out)
        kept = data.lstrip(b"\0")  # what a truncation under a writer leaves behind
        self.offset += len(data) - len(kept)
        if len(kept) > MAX_PENDING_BYTES:
            self._skipped = len(kept) - MAX_PENDING_BYTES
            self.long_lines += 1
        self._pending = kept[:MAX_PENDING_BYTES]
        return out

    def settle(self) -> list[Piece]:
        """What can be said of the unfinished line after a quiet time; nothing twice."""
        text = self._pending.rstrip(b"\r")
        if self._shown or self._skipped is not None or not text.strip():
            return []
        redrawn = self._last_part is not None or len(text) < len(self._pending)
        if not redrawn:
            self._shown = True
            return [Piece("fragment", text, self.offset, self.lines + 1)]
        if len(text) == len(self._pending) and not _ends_like(text, self._last_part or b""):
            return []
        piece = Piece("part", text, self.offset, self.lines + 1)
        self.offset += len(self._pending)
        self._pending, self._last_part = b"", text
        return [piece]

    def jump(self, offset: int) -> None:
        """Goes on at another place of the file; the unfinished line is given up."""
        self.offset, self._pending, self._skipped, self._last_part = offset, b"", None, None

    def _skip(self, data: bytes, out: list[Piece]) -> bytes:
        """Drops bytes up to the end of a line that is too long (or was entered in its middle)."""
        end = _END.search(data)
        if end is None:
            self._skipped = (self._skipped or 0) + len(data)
            return b""
        head, stop = self._pending, end.end()
        if head and end[0] == b"\n":
            self.lines += 1
            out.append(Piece("lines", head + b"\n", self.offset, self.lines))
        elif head:
            out.append(Piece("part", head, self.offset, self.lines + 1))
            self._last_part = head
        self.offset += len(head) + (self._skipped or 0) + stop
        self._pending, self._skipped = b"", None
        return data[stop:]

    def _parts(self, data: bytes, out: list[Piece]) -> bytes:
        """Gives out the ended parts of an unfinished line; a `\\r` at the very end may be half of a `\\r\\n`."""
        stop = data.rfind(b"\r", 0, max(0, len(data) - 1)) + 1
        for raw in data[:stop].split(b"\r")[:-1]:
            if raw.strip():
                out.append(Piece("part", raw, self.offset, self.lines + 1))
                self._last_part = raw
            self.offset += len(raw) + 1
        return data[stop:]


def _ends_like(text: bytes, earlier: bytes) -> bool:
    """Whether a redrawn line looks whole: it ends as the state before it did, and is not cut within a number."""
    text, earlier = text.rstrip(), earlier.rstrip()
    if not text or not earlier:
        return False
    if text[-1:].isalnum() and earlier[-1:].isalnum():
        return len(text) >= len(earlier)
    return text[-1:] == earlier[-1:]
