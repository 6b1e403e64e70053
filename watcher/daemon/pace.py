"""Step times over hours in bounded memory: at most one point a minute, the median of the records in it. Pure."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Any

from detectors.frame import Pace, StepRecord, World

POINT_SECONDS = 60.0
POINTS = 720  # twelve hours and more
IN_POINT = 1000


class PaceKeeper:
    """Points are closed when a minute has passed or the world changes; only printed or even step times count."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float, int, World]] = deque(maxlen=POINTS)
        self._open: list[float] = []
        self._open_at = 0.0
        self._world: World = (0, None, None)
        self._view: Pace | None = None

    def add(self, record: StepRecord, attempt: int, warm: bool) -> None:
        if record.step_seconds is None or record.step_seconds <= 0 or record.phase_between or not warm:
            return
        world = (attempt, record.world_size, record.batch_size)
        if self._open and (record.at - self._open_at >= POINT_SECONDS or world != self._world):
            self._close()
        if not self._open:
            self._open_at, self._world = record.at, world
        if len(self._open) < IN_POINT:
            self._open.append(record.step_seconds)
        self._view = None

    def _close(self) -> None:
        self._points.append((self._open_at, median(self._open), len(self._open), self._world))
        self._open = []

    def view(self) -> Pace:
        if self._view is None:
            points = list(self._points)
            if self._open:
                points.append((self._open_at, median(self._open), len(self._open), self._world))
            self._view = Pace(
                at=tuple(p[0] for p in points),
                step_seconds=tuple(p[1] for p in points),
                records=tuple(p[2] for p in points),
                world=tuple(p[3] for p in points),
            )
        return self._view

    def dump(self) -> list[Any]:
        if self._open:
            self._close()
        return [list(point) for point in self._points]

    @classmethod
    def load(cls, rows: list[Any]) -> PaceKeeper:
        keeper = cls()
        keeper._points.extend(
            (at, seconds, count, (world[0], world[1], world[2])) for at, seconds, count, world in rows
        )
        return keeper
