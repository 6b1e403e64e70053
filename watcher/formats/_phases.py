"""Phase markers of a format as a table: `(phase, edge, pattern)`, searched in one go."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from watcher.events import LogEvent, PhaseName

Edge = Literal["start", "end"]
Row = tuple[PhaseName, Edge, str]


def phase_table(*rows: Row) -> Callable[[str, int], list[LogEvent]]:
    """A function from a line to its phase events: the first row that is found in it. Patterns hold no groups that
    capture."""
    pattern = re.compile("|".join(f"({row[2]})" for row in rows))

    def find(text: str, number: int) -> list[LogEvent]:
        match = pattern.search(text)
        if match is None or match.lastindex is None:
            return []
        phase, edge, _ = rows[match.lastindex - 1]
        return [LogEvent(event="phase", line=number, phase=phase, edge=edge)]

    return find
