"""Numbers and durations as logs print them."""

from __future__ import annotations

import re

# one number: sign, thousands separators, fraction, exponent; or a word for what is none
NUMBER = (
    r"(?:[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|"
    r"[-+]?(?:nan|NaN|NAN|inf|Inf|INF)\b)"
)
_SUFFIX = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}
_CLOCK = re.compile(r"(?:(\d+) days?, )?(\d+):(\d\d)(?::(\d\d(?:\.\d+)?))?$")
_IN_A_SECOND = {"us": 1e6, "µs": 1e6, "ms": 1e3}


def number(text: str | float | None) -> float | None:
    """A float from `1.2E-05`, `6,344`, `nan`, `'0.5'`, `1.05M`; None where it is no number (`n/a`, `?`)."""
    if text is None or isinstance(text, bool):
        return None
    if isinstance(text, int | float):
        return _finite_enough(text)
    try:
        return float(text)
    except ValueError:
        pass
    cleaned = text.strip().strip("'\"").replace(",", "").replace("_", "")
    factor = 1.0
    if cleaned and cleaned[-1] in _SUFFIX and cleaned[:-1].replace(".", "", 1).lstrip("+-").isdigit():
        factor, cleaned = _SUFFIX[cleaned[-1]], cleaned[:-1]
    try:
        return float(cleaned) * factor
    except ValueError:
        return None


def _finite_enough(value: float) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def whole(text: str | float | None) -> int | None:
    """An int from `1,024`, `12.0`, `3e4`; None where it is none or beyond what a counter can be."""
    value = number(text)
    if value is None or value != value or abs(value) > 1e15 or value != int(value):
        return None
    return int(value)


def seconds(text: str | None, unit: str = "s") -> float | None:
    """`548.72` in `ms` to seconds."""
    value = number(text)
    return None if value is None else value / _IN_A_SECOND.get(unit, 1.0)


def clock_seconds(text: str) -> float | None:
    """`01:50`, `1:02:03` or `1 day, 0:08:23` to seconds."""
    match = _CLOCK.match(text.strip())
    if not match:
        return None
    days, first, second, third = match.groups()
    if third is None:
        return int(first) * 60 + float(second)
    return int(days or 0) * 86_400 + int(first) * 3600 + int(second) * 60 + float(third)
