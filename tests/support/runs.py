"""A scripted run through the real fold, detectors and incidents: power, utilization and steps by the minute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from alerts.incidents import Hysteresis, Transition
from detectors.registry import load_plugins
from detectors.telemetry import GpuReading, HostReading
from watcher.daemon.answer import Answer
from watcher.daemon.evaluate import build_detectors
from watcher.daemon.fold import RunFold, RunSettings
from watcher.daemon.pipeline import Pipeline, WatchedRun
from watcher.events import LogEvent
from watcher.snapshot import LogLine, LogStatus, Snapshot

START = 1_700_000_000.0
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What a GPU shows. `wobble`: half the range of its power over time."""

    power_watts: float | None = 650.0
    utilization_ratio: float | None = 0.98
    memory_utilization_ratio: float | None = 0.5
    memory_gib: float | None = 70.0
    wobble_watts: float = 25.0
    state: Any = "ok"
    error: str | None = None


WORK = Level()
SPIN = Level(power_watts=150.0, utilization_ratio=1.0, memory_utilization_ratio=0.0, wobble_watts=1.0)
IDLE = Level(power_watts=120.0, utilization_ratio=0.0, memory_utilization_ratio=0.0, wobble_watts=1.0)
QUIET_HOST = HostReading(
    run_cpu_cores=0.1, run_read_bytes_per_second=0.0, run_write_bytes_per_second=0.0, network_bytes_per_second=5e3
)
FREE = Level(power_watts=70.0, utilization_ratio=0.0, memory_utilization_ratio=0.0, memory_gib=0.0, wobble_watts=0.5)


@dataclass
class ScriptedRun:
    """`level(node, index, t)` gives what a GPU shows at second `t`; events are put in with `say`."""

    nodes: tuple[str, ...] = ("n1", "n2")
    gpus: int = 8
    interval: float = 10.0
    limit_watts: float = 700.0
    name: str = "train"
    gpu_name: str = "NVIDIA H100 80GB HBM3"
    configs: Mapping[str, Any] = field(default_factory=dict)
    hysteresis: Hysteresis | None = None
    only: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings = RunSettings(name=self.name, nodes=self.nodes, interval_seconds=self.interval, **self.settings)
        plugins = {k: v for k, v in load_plugins().items() if not self.only or k in self.only}
        self.fold = RunFold(settings)
        self.pipeline = Pipeline([WatchedRun(self.fold, build_detectors(plugins, self.configs))], self.hysteresis)
        self.host: Callable[[str, float], HostReading | None] = lambda node, t: None
        self.level: Callable[[str, int, float], Level | None] = lambda node, index, t: WORK
        self.t = 0.0
        self.transitions: list[Transition] = []
        self._said: list[tuple[float, LogEvent, str]] = []
        self._offset = 0

    def say(self, t: float, event: LogEvent, node: str | None = None) -> None:
        self._said.append((t, event, node or self.nodes[0]))

    def steps(self, first_t: float, last_t: float, every: float, first_step: int, stride: int = 1, **more: Any) -> int:
        """Step lines at an even pace; answers the last step."""
        t, step = first_t, first_step
        while t <= last_t:
            self.say(t, LogEvent(event="step", step=step, **more))
            t, step = t + every, step + stride
        return step - stride

    def play(self, until: float) -> list[Transition]:
        """Polls up to second `until`; answers the transitions of this stretch."""
        first = len(self.transitions)
        while self.t + self.interval <= until:
            self.t += self.interval
            self.poll()
            self.transitions += self.pipeline.tick(START + self.t).transitions
        return self.transitions[first:]

    def poll(self) -> None:
        due = sorted((item for item in self._said if item[0] <= self.t), key=lambda item: item[0])
        self._said = [item for item in self._said if item[0] > self.t]
        for node in self.nodes:
            self.fold.observe(self.answer(node, [(t, event) for t, event, owner in due if owner == node]))

    def answer(self, node: str, said: list[tuple[float, LogEvent]]) -> Answer:
        now = START + self.t
        levels = [self.level(node, index, self.t) for index in range(self.gpus)]
        if any(level is None for level in levels):
            return Answer(node, now, None, "connection refused")
        lines = []
        for t, event in said:
            self._offset += 100
            lines.append(
                LogLine(
                    seq=self._offset, age_seconds=self.t - t, path="/log", file="1:1", offset=self._offset, event=event
                )
            )
        status = LogStatus(path="/log", lines=len(lines), last_line_age_seconds=self.t - said[-1][0] if said else None)
        snapshot = Snapshot(
            node=node,
            stream="s",
            sent_at=now,
            gpus=tuple(self._reading(node, i, level) for i, level in enumerate(levels) if level is not None),
            gpus_age_seconds=0.5,
            events=tuple(lines),
            logs=(status,),
            host=self.host(node, self.t),
        )
        return Answer(node, now, snapshot)

    def _reading(self, node: str, index: int, level: Level) -> GpuReading:
        tick = int(self.t / self.interval)
        swing = ((tick * 7 + index * 3) % 11 - 5) / 5  # even, repeatable, -1..1
        power = None if level.power_watts is None else level.power_watts + swing * level.wobble_watts
        return GpuReading(
            uuid=f"GPU-{node}-{index:04d}",
            index=index,
            name=self.gpu_name,
            state=level.state,
            error=level.error,
            power_watts=power,
            power_limit_watts=self.limit_watts,
            utilization_ratio=level.utilization_ratio,
            memory_utilization_ratio=level.memory_utilization_ratio,
            memory_used_bytes=None if level.memory_gib is None else int(level.memory_gib * GIB),
            memory_total_bytes=80 * GIB,
        )


def opened(transitions: list[Transition], signature: str | None = None) -> list[Transition]:
    return [t for t in transitions if t.event == "opened" and signature in (None, t.incident.signature)]


def resolved(transitions: list[Transition], signature: str | None = None) -> list[Transition]:
    return [t for t in transitions if t.event == "resolved" and signature in (None, t.incident.signature)]
