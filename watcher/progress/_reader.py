"""Reads a run's progress from metrics each cycle and hands it to the fold as a log would be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Protocol

from watcher.clock import Clock
from watcher.daemon.fold import RunFold
from watcher.daemon.shared_logs import LogReader
from watcher.events import LogEvent
from watcher.progress._steps import StepWatch
from watcher.snapshot import LogLine, LogStatus
from watcher.telemetry._http import FetchError
from watcher.telemetry._prometheus_api import Series


class Points(AbstractAsyncContextManager["Points"], Protocol):
    """Where the points come from. `hides`: its failure says nothing about the run."""

    name: str
    hides: bool

    async def fetch(self, now: float) -> tuple[float, Mapping[str, Sequence[Series]]]:
        """What time it is where the points were taken, and the newest of each field. Raises FetchError."""


class ProgressReader(LogReader):
    """Stands beside the logs that the daemon reads itself."""

    def __init__(self, fold: RunFold, points: Points, clock: Clock) -> None:
        self.fold = fold
        self._points, self._clock = points, clock
        self._watch = StepWatch()
        self._since = 0.0

    async def __aenter__(self) -> ProgressReader:
        await self._points.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._points.__aexit__(kind, error, trace)

    async def read(self) -> tuple[Sequence[LogLine], Sequence[LogStatus]]:
        try:
            there, found = await self._points.fetch(self._clock.time())
        except FetchError as error:
            return (), (self._status(self._clock.time(), str(error), self._points.hides),)
        return seen(self._watch, self._points.name, there, found)

    def _status(self, now: float, error: str, hidden: bool) -> LogStatus:
        return status(self._watch, self._points.name, now, error, hidden)


def seen(
    watch: StepWatch, name: str, there: float, found: Mapping[str, Sequence[Series]]
) -> tuple[Sequence[LogLine], Sequence[LogStatus]]:
    """Events as lines, and what is said of the source. Pure but for `watch`."""
    events = watch.take(found.get("step", ()), {key: series for key, series in found.items() if key != "step"})
    lines = [_line(name, number, there, at, event) for number, (at, event) in enumerate(events)]
    error = None if watch.newest_at is not None else f"no sample of {name} so far"
    return lines, (status(watch, name, there, error, False),)


def status(watch: StepWatch, name: str, there: float, error: str | None, hidden: bool) -> LogStatus:
    age = None if watch.newest_at is None else max(0.0, there - watch.newest_at)
    return LogStatus(
        path=name,
        file=name,
        format="metrics",
        lines=watch.samples,
        steps=watch.steps,
        last_line_age_seconds=age,
        error=error,
        hidden=hidden,
    )


def _line(name: str, number: int, there: float, at: float, event: LogEvent) -> LogLine:
    """The offset is the time of the sample, so that what was taken before a restart is known again."""
    return LogLine.model_construct(
        seq=number, age_seconds=max(0.0, there - at), path=name, file=name, offset=int(at * 1000), event=event,
    )  # fmt: skip
