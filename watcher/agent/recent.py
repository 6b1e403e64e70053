"""The last lines of a log, for the page: few, short, and without anything a terminal would obey."""

from __future__ import annotations

import re
from collections import deque

from watcher.formats._prefix import strip_control

MAX_LINES = 20
MAX_CHARACTERS = 400
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class RecentLines:
    """Raw bytes are kept and made presentable only when asked."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=MAX_LINES)
        self._redrawn = False

    def add_lines(self, block: bytes) -> None:
        """Whole lines."""
        if self._redrawn:
            self._lines.pop()
            self._redrawn = False
        for raw in block.removesuffix(b"\n").rsplit(b"\n", MAX_LINES)[-MAX_LINES:]:
            self._lines.append(raw[-4 * MAX_CHARACTERS :] if b"\r" in raw else raw[: 4 * MAX_CHARACTERS])

    def redraw(self, part: bytes) -> None:
        """A state of the unfinished line, in place of the one before."""
        if self._redrawn:
            self._lines.pop()
        self._lines.append(part[: 4 * MAX_CHARACTERS])
        self._redrawn = True

    def texts(self) -> tuple[str, ...]:
        out = []
        for raw in self._lines:
            shown = raw.rstrip(b"\r").rsplit(b"\r", 1)[-1].decode("utf-8", "replace")
            out.append(_CONTROL.sub("", strip_control(shown))[:MAX_CHARACTERS])
        return tuple(out)
