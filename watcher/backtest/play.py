"""Pieces of history -> ticks: what each node and each run's counter showed at each moment. Pure but for its memory.

A node without samples is one that nobody looked at: it is not judged, and never counts as silent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from watcher.backtest.fetch import Fetched
from watcher.backtest.tape import Tape
from watcher.daemon.answer import Answer
from watcher.progress._reader import seen, status
from watcher.progress._steps import StepWatch
from watcher.replay.run import Tick
from watcher.snapshot import LogLine, LogStatus
from watcher.telemetry._dialect import Dialect
from watcher.telemetry._fleet import NodeNames, samples_by_node
from watcher.telemetry._node import NodeTelemetry, NoGpusError

STEP_POINTS = 64  # of a step counter between two ticks


@dataclass(slots=True)
class Coverage:
    """How much there was to see: looks at a node, and how many of them found its GPUs."""

    looks: int = 0
    found: int = 0
    steps: dict[str, int] = field(default_factory=dict)  # run -> steps that were read

    @property
    def ratio(self) -> float:
        return self.found / self.looks if self.looks else 0.0


@dataclass(slots=True)
class Player:
    """`counters`: run -> {field: key of its series in a piece}."""

    dialect: Dialect
    node_label: str
    nodes: Sequence[str]
    window_seconds: float
    interval_seconds: float
    power_limit_watts: float | None = None
    counters: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    coverage: Coverage = field(default_factory=Coverage)
    _telemetry: dict[str, NodeTelemetry] = field(default_factory=dict)
    _watches: dict[str, StepWatch] = field(default_factory=dict)

    def ticks(self, pieces: Iterable[tuple[float, float, Fetched]]) -> Iterator[Tick]:
        names = NodeNames(self.nodes)
        metrics = set(self.dialect.metrics())
        now: float | None = None
        for first, last, found in pieces:
            gpus = Tape({name: series for name, series in found.items() if name in metrics})
            steps = Tape({name: series for name, series in found.items() if name not in metrics}, STEP_POINTS)
            now = first if now is None else now
            while now < last:
                yield self._tick(now, gpus, steps, names)
                now += self.interval_seconds

    def _tick(self, now: float, gpus: Tape, steps: Tape, names: NodeNames) -> Tick:
        nodes = samples_by_node(gpus.at(now, self.window_seconds), self.node_label, names)
        answers = {}
        for node, told in nodes.items():
            telemetry = self._telemetry.get(node)
            if telemetry is None:
                telemetry = NodeTelemetry(node, "prometheus", self.dialect, self.power_limit_watts)
                self._telemetry[node] = telemetry
            try:
                snapshot = telemetry.snapshot(now, told.samples, told.taken_at, told.interval)
            except NoGpusError:
                continue
            answers[node] = Answer(node, now, snapshot)
        self.coverage.looks += len(self.nodes)
        self.coverage.found += sum(bool(answer.snapshot and answer.snapshot.gpus) for answer in answers.values())
        points = steps.at(now, self.window_seconds)
        logs = {run: self._log(run, fields, points, now, bool(answers)) for run, fields in self.counters.items()}
        return Tick(now, answers, logs)

    def _log(
        self, run: str, fields: Mapping[str, str], points: Fetched, now: float, anything: bool
    ) -> tuple[Sequence[LogLine], Sequence[LogStatus]]:
        watch = self._watches.setdefault(run, StepWatch())
        found = {name: points.get(key, []) for name, key in fields.items()}
        name = f"prometheus {fields['step']}"
        if not found["step"] and not anything:  # nobody looked at anything: that says nothing about the run
            return (), (status(watch, name, now, "a gap in the history", True),)
        told = seen(watch, name, now, found)
        self.coverage.steps[run] = watch.steps
        return told
