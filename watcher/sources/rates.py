"""Differences of counters over time: bytes a second, CPU cores, shares of time in which a GPU was throttled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Rates:
    """Keeps the last value of each counter. A counter that fell (a reset) has no rate until the next reading."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], tuple[float, float]] = {}

    def per_second(self, subject: str, counter: str, value: float, at: float) -> float | None:
        """`at`: seconds of one monotonic clock. None at the first reading and after a reset."""
        before = self._last.get((subject, counter))
        self._last[subject, counter] = (value, at)
        if before is None or value < before[0] or at <= before[1]:
            return None
        return (value - before[0]) / (at - before[1])

    def forget_before(self, at: float) -> None:
        """Counters that were not read since then, such as those of processes that ended."""
        self._last = {key: last for key, last in self._last.items() if last[1] >= at}


def with_rates(raw: Mapping[str, Any], rates: Rates, at: float) -> dict[str, Any]:
    """A GPU object as the child sends it, its counters of nanoseconds and bytes as what they mean.

    A reason whose counter moves is a share of time; one that is only flagged is 0 or 1 at this moment.
    """
    out = dict(raw)
    uuid = str(raw.get("uuid"))
    ratios: dict[str, float] = {name: float(flag) for name, flag in out.pop("throttled_now", {}).items()}
    for name, nanoseconds in out.pop("throttle_ns", {}).items():
        rate = rates.per_second(uuid, name, nanoseconds, at)
        if rate:
            ratios[name] = min(1.0, rate / 1e9)
        elif rate is not None:
            ratios.setdefault(name, 0.0)
    if ratios:
        out["throttle_ratios"] = ratios
    for link in ("nvlink", "pcie"):
        moved = out.pop(f"{link}_bytes", None)
        if moved is not None:
            out[f"{link}_bytes_per_second"] = rates.per_second(uuid, link, moved, at)
    return out
