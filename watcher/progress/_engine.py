"""Points of a run's counters from a Prometheus-compatible API."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType

from watcher.progress._reader import Points
from watcher.progress._sections import EngineProgressSection
from watcher.telemetry._http import FetchError
from watcher.telemetry._prometheus_api import PrometheusApi, Series


class EnginePoints(Points):
    """An engine that does not answer hides the run: its silence is not the run's."""

    hides = True

    def __init__(self, section: EngineProgressSection) -> None:
        self.name = f"prometheus {section.step}"
        self._wanted = section.wanted()
        self._url = section.url
        self._window = f"[{section.window_seconds:.0f}s]"
        self._api = PrometheusApi(section)

    async def __aenter__(self) -> EnginePoints:
        await self._api.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._api.__aexit__(kind, error, trace)

    async def fetch(self, now: float) -> tuple[float, Mapping[str, Sequence[Series]]]:
        self._api.forget_warning()
        there = await self._api.time()
        answers = await asyncio.gather(*(self._api.query(text + self._window, there) for text in self._wanted.values()))
        found = dict(zip(self._wanted, answers, strict=True))
        if self._api.warned is not None and not found["step"]:  # half an answer: the run may well go on
            raise FetchError(f"{self._url} has no sample of {self.name} and warns: {self._api.warned}")
        return there, found
