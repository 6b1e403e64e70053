"""Fetches history piece by piece: the samples as they were taken, a bounded number of them at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any

from watcher.telemetry._http import FetchError
from watcher.telemetry._prometheus_api import PrometheusApi, Series

FIRST_SECONDS = 600.0
MOST_SECONDS = 3600.0
LEAST_SECONDS = 120.0
POINTS = 2_000_000  # of all series, held at once

Fetched = dict[str, list[Series]]


class History:
    """`queries`: name -> plain selector. A range selector gives each sample with its own time; a range query would
    repeat the last one for five minutes after its series ended."""

    def __init__(self, api: PrometheusApi, queries: Mapping[str, str], window_seconds: float) -> None:
        self._api, self._queries, self._window = api, queries, window_seconds
        self._piece = FIRST_SECONDS

    def pieces(
        self, first: float, last: float, run: Callable[[Coroutine[Any, Any, Fetched]], Fetched]
    ) -> Iterator[tuple[float, float, Fetched]]:
        """(from, to, samples from a window before `from` on), in order. `run` waits for a coroutine.

        A piece that is too large for the engine, or takes it too long, is halved. Raises FetchError.
        """
        at = first
        while at < last:
            end = min(last, at + self._piece)
            try:
                found = run(self._fetch(at, end))
            except FetchError:
                if end - at <= LEAST_SECONDS:
                    raise
                self._piece = max(LEAST_SECONDS, (end - at) / 2)
                continue
            yield at, end, found
            points = sum(len(one.points) for series in found.values() for one in series)
            self._piece = min(MOST_SECONDS, max(LEAST_SECONDS, (end - at) * POINTS / max(points, 1)))
            at = end

    async def _fetch(self, first: float, last: float) -> Fetched:
        span = f"[{last - first + self._window:.0f}s]"
        answers: Sequence[list[Series]] = await asyncio.gather(
            *(self._api.query(text + span, last) for text in self._queries.values())
        )
        return dict(zip(self._queries, answers, strict=True))
