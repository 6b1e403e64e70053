"""Samples of a stretch of history, and what could be seen of them at each moment. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from watcher.telemetry._prometheus_api import Series

SHOWN = 4  # of the newest points of a series: enough to know how far apart they are


class _Track:
    """One series that is played forward."""

    __slots__ = ("labels", "place", "points")

    def __init__(self, labels: Mapping[str, str], points: tuple[tuple[float, float], ...]) -> None:
        self.labels, self.points, self.place = labels, points, 0

    def at(self, now: float, oldest: float, shown: int) -> Series | None:
        points, place = self.points, self.place
        while place < len(points) and points[place][0] <= now:
            place += 1
        self.place = place
        first = max(0, place - shown)
        while first < place and points[first][0] <= oldest:
            first += 1
        return Series(self.labels, points[first:place]) if first < place else None


class Tape:
    """`found`: what was asked for -> its series. Moments must ascend."""

    def __init__(self, found: Mapping[str, Sequence[Series]], shown: int = SHOWN) -> None:
        self._shown = shown
        self._tracks = {
            name: [_Track(one.labels, tuple(sorted(one.points))) for one in series] for name, series in found.items()
        }

    def at(self, now: float, window_seconds: float) -> dict[str, list[Series]]:
        """The newest points of each series that is not older than the window, as a live look would have found them."""
        oldest = now - window_seconds
        return {name: list(_seen(tracks, now, oldest, self._shown)) for name, tracks in self._tracks.items()}


def _seen(tracks: Iterable[_Track], now: float, oldest: float, shown: int) -> Iterable[Series]:
    for track in tracks:
        series = track.at(now, oldest, shown)
        if series is not None:
            yield series
