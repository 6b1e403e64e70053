"""Points of a step counter, maybe one series a rank -> steps and launches, in order of time. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from watcher.events import LogEvent
from watcher.telemetry._prometheus_api import Series

MAX_SERIES = 4_096
LINGER_SECONDS = 150.0  # a series that is silent for longer has ended
BESIDE_SECONDS = 60.0  # a value beside a step is at most so much older


@dataclass(slots=True)
class _Last:
    at: float
    step: int
    born_at: float  # its first sample


@dataclass(slots=True)
class StepWatch:
    """What the counter said so far. A counter that falls, and a new one where all old ones ended, is a new launch."""

    newest_at: float | None = None  # of any sample, moved or not
    samples: int = 0
    steps: int = 0
    _last: dict[frozenset[tuple[str, str]], _Last] = field(default_factory=dict)
    _current: int | None = None
    _current_at: float = 0.0  # when that step was reached

    def take(self, counters: Sequence[Series], beside: Mapping[str, Sequence[Series]]) -> list[tuple[float, LogEvent]]:
        """(when, event), oldest first; points that were taken before are passed over. `beside`: field -> its series."""
        told: list[tuple[float, LogEvent]] = []
        for at, key, step in sorted(self._new(counters), key=lambda point: point[0]):
            self.samples += 1
            self.newest_at = at if self.newest_at is None else max(at, self.newest_at)
            told += [(at, _with(event, at, beside)) for event in self._point(at, key, step)]
        while len(self._last) > MAX_SERIES:
            self._last.pop(next(iter(self._last)))
        return told

    def _new(self, counters: Sequence[Series]) -> Iterable[tuple[float, frozenset[tuple[str, str]], int]]:
        for series in counters[:MAX_SERIES]:
            key = frozenset(series.labels.items())
            known = self._last.get(key)
            for at, value in series.points:
                if math.isfinite(value) and abs(value) < 2**53 and (known is None or at > known.at):
                    yield at, key, int(value)

    def _point(self, at: float, key: frozenset[tuple[str, str]], step: int) -> Iterable[LogEvent]:
        before = self._last.get(key)
        others = any(at - last.at <= LINGER_SECONDS for other, last in self._last.items() if other != key)
        mine = _Last(at, step, before.born_at if before is not None else at)
        self._last[key] = mine
        if self._current is None or step > self._current:
            yield self._step(at, step)
        elif (before is not None and step < before.step) or (
            step < self._current and not others and mine.born_at > self._current_at
        ):
            self._last = {key: mine}
            yield LogEvent(event="phase", phase="startup", edge="start")
            yield self._step(at, step)

    def _step(self, at: float, step: int) -> LogEvent:
        self.steps += 1
        self._current, self._current_at = step, at
        return LogEvent(event="step", step=step)


def _with(event: LogEvent, at: float, beside: Mapping[str, Sequence[Series]]) -> LogEvent:
    """What stood beside the counter at that moment."""
    if event.event != "step":
        return event
    values: dict[str, float | int] = {}
    for name, series in beside.items():
        points = [p for one in series for p in one.points if at - BESIDE_SECONDS <= p[0] <= at + 0.001]
        if points:
            value = max(points)[1]
            if name == "loss" or math.isfinite(value):
                values[name] = int(value) if name == "total_steps" else value
    return replace(event, **values)  # type: ignore[arg-type]
