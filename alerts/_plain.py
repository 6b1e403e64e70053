"""Turns whatever a detector put into its evidence into bounded, plain JSON values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from alerts._text import clean

MAX_ITEMS = 2_000
MAX_TEXT = 4_000
MAX_DEPTH = 6
MAX_INTEGER = 2**64  # beyond it no pager, database or float goes along


def plain(value: Any, depth: int = MAX_DEPTH) -> Any:
    """JSON-ready copy: numpy values become numbers, NaN and infinities text, long texts and lists are cut."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= MAX_INTEGER else f"a number of {value.bit_length()} bits"
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return clean(value, MAX_TEXT)
    if depth == 0:
        return clean(str(value), MAX_TEXT)
    if isinstance(value, Mapping):
        items = list(value.items())[:MAX_ITEMS]
        return {clean(str(key), 200): plain(item, depth - 1) for key, item in items}
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return plain(value.tolist(), depth - 1)
    if isinstance(value, list | tuple | set | frozenset):
        ordered = sorted(value, key=str) if isinstance(value, set | frozenset) else list(value)
        shown = [plain(item, depth - 1) for item in ordered[:MAX_ITEMS]]
        return shown if len(ordered) <= MAX_ITEMS else [*shown, f"... {MAX_ITEMS} of {len(ordered)} shown"]
    return clean(str(value), MAX_TEXT)
