"""Asks a Prometheus-compatible API about all nodes at once. A failure is data, for every node."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType

from watcher.clock import Clock
from watcher.daemon.answer import Answer, AnswerSource, Note
from watcher.snapshot import dump_snapshot
from watcher.telemetry._api import NodesNow
from watcher.telemetry._dialect import Dialect
from watcher.telemetry._fleet import NodeNames, NodeSamples, samples_by_node, selector
from watcher.telemetry._http import FetchError
from watcher.telemetry._node import NodeTelemetry, NoGpusError
from watcher.telemetry._prometheus_api import PrometheusApi, Series
from watcher.telemetry._samples import UNREADABLE
from watcher.telemetry._sections import EngineSection

NEWEST = 3  # points of a series: enough to know how far apart they are
NODES_AT_ONCE = 32
ABSENT_LOOKS = 30  # a metric that nobody has is asked for again after so many looks


class Engine(AnswerSource):
    """`name`: of the plug-in, for messages. Remembers which metrics are worth asking for."""

    def __init__(self, name: str, dialect: Dialect, section: EngineSection, nodes: NodesNow, clock: Clock) -> None:
        self._name, self._dialect, self._section, self._nodes, self._clock = name, dialect, section, nodes, clock
        self._api = PrometheusApi(section)
        self._label = section.node_label or dialect.node
        self._telemetry: dict[str, NodeTelemetry] = {}
        self._names: NodeNames | None = None
        self._absent: dict[str, int] = {}  # metric -> looks until it is asked for again

    async def __aenter__(self) -> Engine:
        await self._api.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._api.__aexit__(kind, error, trace)

    async def ask_all(self, note: Note | None = None) -> Sequence[Answer]:
        """One answer a node. Ages are differences on the engine's own clock."""
        nodes = list(self._nodes())
        for gone in set(self._telemetry) - set(nodes):
            del self._telemetry[gone]
        if self._names is None or self._names.nodes != nodes:
            self._names = NodeNames(nodes)
        names = self._names
        self._api.forget_warning()
        try:
            there = await self._api.time()
            found = await self._fetch(there, names)
        except FetchError as error:
            return self._all_silent(nodes, str(error), note)
        now = self._clock.time()
        seen = await asyncio.to_thread(samples_by_node, found, self._label, names)
        answers = []
        for number, node in enumerate(nodes):
            answers.append(self._answer(node, seen.get(node), now, now - there, note))
            if number % NODES_AT_ONCE == 0:
                await asyncio.sleep(0)  # the daemon's page and its other sources go on
        return answers

    async def _fetch(self, there: float, names: NodeNames) -> dict[str, list[Series]]:
        """metric -> series. Raises FetchError where not even the first metric can be had."""
        self._absent = {metric: looks - 1 for metric, looks in self._absent.items() if looks > 1}
        metrics = [metric for metric in self._dialect.metrics() if metric not in self._absent]
        matchers = (self._section.selector, names.matcher(self._label))
        window = f"[{self._section.window_seconds:.0f}s]"

        async def one(metric: str) -> list[Series]:
            return await self._api.query(selector(metric, *matchers) + window, there, NEWEST)

        answers = await asyncio.gather(*(one(metric) for metric in metrics), return_exceptions=True)
        found: dict[str, list[Series]] = {}
        for metric, answer in zip(metrics, answers, strict=True):
            if isinstance(answer, FetchError) and any(isinstance(other, list) for other in answers):
                continue  # this field is not known now
            if isinstance(answer, BaseException):
                raise answer
            found[metric] = answer
            if not answer:
                self._absent[metric] = ABSENT_LOOKS
        if not any(found.values()):  # nothing at all: an engine that has just started, say
            self._absent.clear()
        return found

    def _answer(self, node: str, seen: NodeSamples | None, now: float, ahead: float, note: Note | None) -> Answer:
        telemetry = self._telemetry.get(node)
        if telemetry is None:
            limit = self._section.power_limit_watts
            telemetry = self._telemetry[node] = NodeTelemetry(node, self._name, self._dialect, limit)
        body = b""
        try:
            if seen is None and self._api.warned is not None:
                raise NoGpusError(f"{self._section.url} tells nothing of {node} and warns: {self._api.warned}")
            if seen is None:
                raise NoGpusError(
                    f"{self._section.url} has no sample of {node} from the last {self._section.window_seconds:.0f} s: "
                    f"is {self._label} of {self._dialect.anchor} the name of the node? (node_label)"
                )
            snapshot = telemetry.snapshot(now, seen.samples, seen.taken_at + ahead, seen.interval)
            answer = Answer(node, now, snapshot, part="gpus")
            body = dump_snapshot(snapshot) if note is not None else b""
        except NoGpusError as error:
            answer = Answer(node, now, None, str(error), part="gpus")
        except UNREADABLE as error:  # whatever is told of one node, the others are read
            told = f"what {self._section.url} tells of {node} cannot be read: {error!r}"[:300]
            answer = Answer(node, now, None, told, part="gpus")
        if note is not None:
            note(body, answer)
        return answer

    def _all_silent(self, nodes: Sequence[str], error: str, note: Note | None) -> list[Answer]:
        answers = [Answer(node, self._clock.time(), None, error, part="gpus") for node in nodes]
        if note is not None:
            for answer in answers:
                note(b"", answer)
        return answers
