"""Scrapes an exporter on each node. A failure is data: one readable line."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType

import aiohttp

from alerts.secret import SecretError
from watcher.clock import Clock
from watcher.daemon.answer import Answer, AnswerSource, Note
from watcher.snapshot import dump_snapshot
from watcher.telemetry._api import NodesNow
from watcher.telemetry._dialect import Dialect
from watcher.telemetry._http import FetchError, fetch, open_session
from watcher.telemetry._node import NodeTelemetry, NoGpusError
from watcher.telemetry._samples import UNREADABLE, read_exposition
from watcher.telemetry._sections import ExporterSection

MAX_BYTES = 8 << 20


class Scraper(AnswerSource):
    """`name`: of the exporter. Asks all nodes at once."""

    def __init__(self, name: str, dialect: Dialect, section: ExporterSection, nodes: NodesNow, clock: Clock) -> None:
        self._name, self._dialect, self._section, self._clock = name, dialect, section, clock
        self._wanted = frozenset(dialect.metrics())
        self._nodes = nodes
        self._telemetry: dict[str, NodeTelemetry] = {}
        self._session: aiohttp.ClientSession | None = None
        self._broken: str | None = None

    async def __aenter__(self) -> Scraper:
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

    async def ask_all(self, note: Note | None = None) -> Sequence[Answer]:
        """One answer a node, in the order of the nodes."""
        limit = self._section.power_limit_watts
        known = self._telemetry
        self._telemetry = {
            node: known.get(node) or NodeTelemetry(node, self._name, self._dialect, limit) for node in self._nodes()
        }
        return await asyncio.gather(*(self._ask(telemetry, note) for telemetry in self._telemetry.values()))

    async def _ask(self, telemetry: NodeTelemetry, note: Note | None) -> Answer:
        body = b""
        try:
            text = await self._get(self._section.url(telemetry.node))
            now = self._clock.time()
            samples = read_exposition(text, self._wanted)
            stamps = [sample.at for sample in samples if sample.at is not None]
            snapshot = telemetry.snapshot(now, samples, max(stamps, default=now))
            answer = Answer(telemetry.node, now, snapshot, part="gpus")
            body = dump_snapshot(snapshot) if note is not None else b""
        except (FetchError, SecretError, NoGpusError) as error:
            answer = Answer(telemetry.node, self._clock.time(), None, str(error), part="gpus")
        except UNREADABLE as error:  # whatever one node tells, the others are read
            told = f"what {self._name} tells of {telemetry.node} cannot be read: {error!r}"[:300]
            answer = Answer(telemetry.node, self._clock.time(), None, told, part="gpus")
        if note is not None:
            note(body, answer)
        return answer

    async def _get(self, url: str) -> str:
        if self._session is None:
            raise FetchError(self._broken or "use `async with Scraper(...)`")
        status, body = await fetch(self._session, url, self._section.headers(), MAX_BYTES)
        if status in (401, 403):
            raise FetchError(f"{url} refuses us (HTTP {status}): set token_file, or username and password_file")
        if status != 200:
            raise FetchError(f"{url}: HTTP {status}; is {self._name} what listens there?")
        return body.decode("utf-8", "replace")
