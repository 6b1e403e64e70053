"""The query API that Prometheus, VictoriaMetrics, Mimir, Thanos and others share. Bounded; errors say what to do."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlencode

import aiohttp

from alerts.secret import SecretError
from watcher.telemetry._http import FetchError, fetch, open_session
from watcher.telemetry._sections import ApiSection

MAX_BYTES = 96 << 20
MAX_URL = 2_000  # longer ones are posted
AT_ONCE = 4
INLINE_BYTES = 1 << 18
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Series:
    """Points in order of time, (unix seconds, value)."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]


class PrometheusApi:
    """Use with `async with`. All methods raise FetchError."""

    def __init__(self, section: ApiSection) -> None:
        self._section = section
        self._session: aiohttp.ClientSession | None = None
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._broken = "use `async with PrometheusApi(...)`"
        self.warned: str | None = None  # what it said last beside an answer: that a store behind it was silent, say

    async def __aenter__(self) -> PrometheusApi:
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

    def forget_warning(self) -> None:
        """Before a round of questions: `warned` is then about these."""
        self.warned = None

    async def time(self) -> float:
        """What time it is there: ages are differences on that clock."""
        told = await self._ask("query", {"query": "time()"}, _clock)
        if told is None:
            raise FetchError(f"{self._section.url} does not know the time: is this a Prometheus API?")
        return told

    async def query(self, expression: str, at: float, newest: int | None = None) -> list[Series]:
        """An instant query; with a range selector the samples as they were taken, or the `newest` of each series."""
        form = {"query": expression, "time": f"{at:.3f}"}
        return await self._ask("query", form, lambda data: _series(data, newest))

    async def label_values(self, label: str, match: str, first: float, last: float) -> list[str]:
        """Values that the label had on the matched series in that time."""
        form = {"match[]": match, "start": f"{first:.3f}", "end": f"{last:.3f}"}
        return await self._ask(f"label/{label}/values", form, _names)

    async def _ask(self, what: str, form: Mapping[str, str], read: Callable[[dict[str, Any]], T]) -> T:
        """`read` takes what came; a large answer is read in a thread."""
        if self._session is None:
            raise FetchError(self._broken)
        url = f"{self._section.url}/api/v1/{what}"
        full = f"{url}?{urlencode(form)}"
        try:
            headers = self._section.headers()
        except SecretError as error:
            raise FetchError(str(error)) from None
        async with self._gate:
            try:
                if len(full) <= MAX_URL:
                    status, body = await fetch(self._session, full, headers, MAX_BYTES)
                else:
                    status, body = await fetch(self._session, url, headers, MAX_BYTES, form)
            except FetchError as error:
                raise FetchError(str(error).replace(full, url)) from None
        if len(body) <= INLINE_BYTES:
            return self._read(url, status, body, read)
        return await asyncio.to_thread(self._read, url, status, body, read)

    def _read(self, url: str, status: int, body: bytes, read: Callable[[dict[str, Any]], T]) -> T:
        data = _data(url, status, body)
        if isinstance(data["warnings"], list) and data["warnings"]:
            self.warned = str(data["warnings"][0])[:300]
        return read(data)


def _data(url: str, status: int, body: bytes) -> dict[str, Any]:
    """What was asked for, with the `warnings` beside it. Raises FetchError."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if status in (401, 403):
        raise FetchError(f"{url} refuses us (HTTP {status}): set token_file, username and password_file, or org_id")
    if not isinstance(answer, dict) or "status" not in answer:
        raise FetchError(f"{url}: HTTP {status} and no answer of a Prometheus API: does url hold the whole path?")
    data = answer.get("data")
    if isinstance(data, list):
        data = {"result": data}
    if answer["status"] != "success" or not isinstance(data, dict):
        raise FetchError(f"{url}: {str(answer.get('error') or f'HTTP {status}')[:300]}")
    return {**data, "warnings": answer.get("warnings")}


def _clock(data: Mapping[str, Any]) -> float | None:
    try:
        told = float(data["result"][1])
    except (KeyError, IndexError, TypeError, ValueError, OverflowError):
        return None
    return told if math.isfinite(told) else None


def _names(data: Mapping[str, Any]) -> list[str]:
    items = data.get("result")
    return [item for item in items if isinstance(item, str)] if isinstance(items, list) else []


def _series(data: Mapping[str, Any], newest: int | None = None) -> list[Series]:
    """Vectors and matrices alike; what is no number is left out."""
    found = []
    items = data.get("result")
    for item in items if isinstance(items, list) else ():
        if not isinstance(item, dict):
            continue
        raw = item.get("values") or ([item["value"]] if "value" in item else [])
        labels = item.get("metric")
        if isinstance(labels, dict) and isinstance(raw, list):
            points = _points(raw if newest is None else raw[-newest:])
            found.append(Series({k: v if isinstance(v, str) else str(v) for k, v in labels.items()}, tuple(points)))
    return found


def _points(raw: list[Any]) -> list[tuple[float, float]]:
    points = []
    for pair in raw:
        try:
            at, value = float(pair[0]), float(pair[1])
        except (TypeError, ValueError, IndexError, KeyError, OverflowError):
            continue
        if math.isfinite(at):
            points.append((at, value))
    return points
