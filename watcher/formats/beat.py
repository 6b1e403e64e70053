"""The progress file of `runwatch beat`: progress without a log, one JSON object a line.

    {"step": 120, "total": 5000, "at": 1735689600.0}

`at` is unix seconds. A run may write such lines itself; only `step` is needed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless

KEYS = frozenset({"step", "total", "at"})
_MAX_CHARACTERS = 200


def beat_line(step: int, total: int | None, at: float) -> str:
    """One line of a progress file, with its end."""
    values = {"step": step, "total": total, "at": round(at, 3)}
    return json.dumps({key: value for key, value in values.items() if value is not None}) + "\n"


def _parse(line: str, number: int) -> Iterable[LogEvent]:
    text = line.strip()
    if len(text) > _MAX_CHARACTERS or not (text.startswith("{") and text.endswith("}")):
        return
    try:
        values = json.loads(text)
    except ValueError:
        return
    if not set(values) <= KEYS or not _is_count(values.get("step")):  # another program's JSON lines
        return
    total, at = values.get("total"), values.get("at")
    is_instant = isinstance(at, int | float) and not isinstance(at, bool) and math.isfinite(at)
    yield LogEvent(
        event="step", line=number, step=values["step"], total_steps=total if _is_count(total) else None,
        logged_at=float(at) if is_instant else None,
    )  # fmt: skip


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


FORMAT = Format("beat", lambda: Stateless(_parse), hints=('"step"',), priority=60)
