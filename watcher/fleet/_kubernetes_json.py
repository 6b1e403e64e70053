"""What the API server sends, read without trust: anything may be missing, null or of another type. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

Json = Mapping[str, Any]
MAX_TEXT = 200


def part(value: Any, *keys: str) -> Json:
    """The mapping under these keys; empty where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def rows(value: Any) -> list[Json]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def text(value: Any) -> str:
    """One line, cut, nothing that a terminal obeys: messages may hold whatever a job has printed."""
    line = " ".join(value[: 10 * MAX_TEXT].split()) if isinstance(value, str) else ""
    return "".join(sign for sign in line if sign.isprintable())[:MAX_TEXT]


def count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else 0


def instant(value: Any) -> float | None:
    """RFC 3339 -> unix seconds of the cluster's clock."""
    if not isinstance(value, str):
        return None
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
