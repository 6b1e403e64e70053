"""Points of a run's counters from the job's own /metrics: one a look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType

import aiohttp

from alerts.secret import SecretError
from watcher.progress._reader import Points
from watcher.progress._sections import EndpointSection, parse_selector
from watcher.telemetry._http import FetchError, fetch, open_session
from watcher.telemetry._prometheus_api import Series
from watcher.telemetry._samples import read_exposition

MAX_BYTES = 8 << 20


class EndpointPoints(Points):
    """A job that hangs may not answer either: that is silence, and hides nothing."""

    hides = False

    def __init__(self, section: EndpointSection) -> None:
        self.name = f"{section.url} {section.step}"
        self._section = section
        self._wanted = {name: parse_selector(text) for name, text in section.wanted().items()}
        self._session: aiohttp.ClientSession | None = None
        self._broken = "use `async with EndpointPoints(...)`"

    async def __aenter__(self) -> EndpointPoints:
        try:
            self._session = open_session(self._section.ca_file, self._section.timeout_seconds)
        except FetchError as error:
            self._broken = str(error)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def fetch(self, now: float) -> tuple[float, Mapping[str, Sequence[Series]]]:
        if self._session is None:
            raise FetchError(self._broken)
        try:
            status, body = await fetch(self._session, self._section.url, self._section.headers(), MAX_BYTES)
        except SecretError as error:
            raise FetchError(str(error)) from None
        if status != 200:
            raise FetchError(f"{self._section.url}: HTTP {status}")
        samples = read_exposition(body.decode("utf-8", "replace"), {name for name, _ in self._wanted.values()})
        found: dict[str, list[Series]] = {name: [] for name in self._wanted}
        for name, (metric, labels) in self._wanted.items():
            for sample in samples:
                if sample.name == metric and all(sample.labels.get(k) == v for k, v in labels.items()):
                    at = (
                        min(sample.at, now) if sample.at is not None else now
                    )  # a clock that was ahead hides none after
                    found[name].append(Series(sample.labels, ((at, sample.value),)))
        return now, found
