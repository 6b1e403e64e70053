"""Errors of one log: one event per rank and place, a traceback being one."""

from __future__ import annotations

from watcher.events import LogEvent
from watcher.formats._error_kinds import ROWS
from watcher.formats._prefix import Prefix

ERROR_HINTS: tuple[str, ...] = tuple(sorted({hint for row in ROWS for hint in row.hints}))


class ErrorCollector:
    """`busy`: the next lines matter although they may hold no word of the table."""

    def __init__(self) -> None:
        self.busy = False

    def feed(self, prefix: Prefix, number: int) -> list[LogEvent]:
        lower = prefix.text.lower()
        for row in ROWS:
            if any(hint in lower for hint in row.hints) and row.pattern.search(prefix.text):
                return [
                    LogEvent(
                        event="error", line=number, kind=row.kind, message=prefix.text.strip()[:300], rank=prefix.rank,
                        host=prefix.host, cascade=row.cascade,
                    )
                ]  # fmt: skip
        return []

    def flush(self) -> list[LogEvent]:
        return []
