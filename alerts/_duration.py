"""Durations and instants as people read them."""

from __future__ import annotations

import math
from datetime import UTC, datetime


def spoken(seconds: float) -> str:
    """`3 m 12 s`, `2 h 05 m`, `4 d 03 h`; below zero counts as zero."""
    if not math.isfinite(seconds):
        return "an unknown time"
    total = max(0, round(seconds))
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} m {total % 60:02d} s"
    if total < 86400:
        return f"{total // 3600} h {total % 3600 // 60:02d} m"
    return f"{total // 86400} d {total % 86400 // 3600:02d} h"


def instant(at: float) -> str:
    """`2024-05-01 12:00:07 UTC`; what no calendar holds is `an unknown time`."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return "an unknown time"
