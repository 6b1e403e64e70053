"""Gaps and lengths that a run has shown: the longest and the median of the last N."""

from __future__ import annotations

from collections import deque
from statistics import median

from detectors.frame import GapStats

KEPT = 256
REFRESH = 16  # the longest must be exact at once, the median may be a little old


class Gaps:
    """Durations in seconds of one kind; bounded."""

    def __init__(self, kept: int = KEPT) -> None:
        self._values: deque[float] = deque(maxlen=kept)
        self._count = 0
        self._median = 0.0
        self._longest = 0.0

    def add(self, seconds: float) -> None:
        if seconds < 0:
            return
        leaving = self._values[0] if len(self._values) == self._values.maxlen else None
        self._values.append(seconds)
        self._count += 1
        if leaving is not None and leaving >= self._longest:
            self._longest = max(self._values)
        self._longest = max(self._longest, seconds)
        if self._count <= REFRESH or self._count % REFRESH == 0:
            self._median = median(self._values)

    def stats(self) -> GapStats | None:
        if not self._values:
            return None
        return GapStats(longest_seconds=self._longest, median_seconds=self._median, count=self._count)

    def values(self) -> list[float]:
        return list(self._values)

    @classmethod
    def of(cls, values: list[float]) -> Gaps:
        gaps = cls()
        for value in values:
            gaps.add(value)
        return gaps
