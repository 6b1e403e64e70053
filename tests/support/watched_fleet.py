"""Simulated runs with their real agents and one real daemon, on a clock that the test moves: hours in seconds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric

from alerts.worker import Worker
from detectors.telemetry import GpuReading, HostReading
from watcher.agent.app import Agent
from watcher.agent.follow import LogFollower
from watcher.agent.metrics import AgentMetrics
from watcher.clock import FakeClock
from watcher.config.agent import AgentConfig
from watcher.config.alerting import build_channels
from watcher.config.daemon import DaemonConfig
from watcher.daemon.answer import Answer, Note
from watcher.daemon.build import build
from watcher.daemon.metrics import DaemonMetrics
from watcher.daemon.pushed import Pushed
from watcher.daemon.store import Store
from watcher.simulate.fleet import Fleet
from watcher.simulate.gpus import SimulatedGpus
from watcher.snapshot import dump_snapshot, parse_snapshot
from watcher.tokens import NodeTokens

GIB = 1 << 30
INTERVAL_SECONDS = 10.0
NOBODY = "http://127.0.0.1:9"  # refuses at once


Fault = Callable[[GpuReading, float], GpuReading]


def _sound(reading: GpuReading, t: float) -> GpuReading:
    return reading


class FaultyGpus(SimulatedGpus):
    """Simulated GPUs that may be broken."""

    reading_seconds = 0.02

    def __init__(self, fleet: Fleet, node: str, clock: FakeClock, started_at: float, fault: Fault) -> None:
        super().__init__(fleet, node, clock, started_at)
        self._clock_of, self._began_at, self._fault = clock, started_at, fault

    async def poll(self, deadline_seconds: float) -> None:
        await super().poll(deadline_seconds)
        assert self.latest is not None
        t = self._clock_of.now - self._began_at
        self.latest = replace(self.latest, gpus=tuple(self._fault(gpu, t) for gpu in self.latest.gpus))


class SimulatedHost:
    """A sound node of two terabytes with a run on it."""

    def read(self, pids: frozenset[int]) -> HostReading:
        return HostReading(
            boot_id="b", uptime_seconds=86_400.0, load_average=31.0, memory_used_bytes=400 * GIB,
            memory_total_bytes=2048 * GIB, run_memory_bytes=300 * GIB, run_memory_limit_bytes=1900 * GIB,
            run_cpu_cores=24.0, run_read_bytes_per_second=2e8, run_write_bytes_per_second=1e6,
            network_bytes_per_second=9e9, shm_used_bytes=60 * GIB, shm_total_bytes=1024 * GIB,
            disks={"/": (40 * GIB, 400 * GIB), "/scratch": (2 << 40, 7 << 40)}, link_flaps={"ib0": 0, "ib1": 0},
        )  # fmt: skip


@dataclass(slots=True)
class Here:
    """Asks the agents without a network."""

    agents: dict[str, Agent]
    clock: FakeClock
    silent: set[str] = field(default_factory=set)
    since: dict[str, str] = field(default_factory=dict)

    async def ask_all(self, note: Note | None = None) -> Sequence[Answer]:
        return [self._ask(node) for node in self.agents]

    def _ask(self, node: str) -> Answer:
        if node in self.silent:
            return Answer(node, self.clock.time(), None, "connection refused")
        agent = self.agents[node]
        agent.asked_at = self.clock.time()
        snapshot = parse_snapshot(json.loads(dump_snapshot(agent.snapshot(self.since.get(node)))))
        self.since[node] = f"{snapshot.stream}:{snapshot.next_seq}"
        return Answer(node, self.clock.time(), snapshot)


class WatchedFleet:
    """`fleets`: run -> its fleet; node names must differ. Second 0 of each script is `started_at`, unix seconds.

    `fault`: a sound reading and its second -> what the agent gets to see.
    """

    def __init__(
        self, folder: Path, fleets: dict[str, Fleet], started_at: float, stack: ExitStack, fault: Fault = _sound
    ) -> None:
        self.fleets, self.started_at, self._fault = fleets, started_at, fault
        self.clock = FakeClock(started_at)
        self.agents: dict[str, Agent] = {}
        self._logs: dict[str, Path] = {}
        for run, fleet in fleets.items():
            self._logs[run] = folder / f"{run}.log"
            self._logs[run].touch()
            for node in fleet.nodes:
                self.agents[node] = self._agent(fleet, node, self._logs[run] if node == fleet.nodes[0] else None)
        self.here = Here(self.agents, self.clock)
        store = Store(folder / "runwatch.db", started_at)
        stack.callback(store.close)
        config = DaemonConfig.model_validate(self._config(folder))
        self.daemon, _ = build(config, self.clock, store)
        nobody = Pushed(list, self.clock, NodeTokens())
        self.daemon.sources, self.daemon.workers = [self.here, nobody], ()
        self.daemon.tls = SimpleNamespace(expires_at=self.clock.time() + 86_400)
        channels = build_channels(config.channels)
        self._workers = [
            Worker(name, channel, self.daemon.desk.outbox, runner=lambda call, _: call())
            for name, channel in channels.items()
        ]

    def _agent(self, fleet: Fleet, node: str, log: Path | None) -> Agent:
        logs = [str(log)] if log is not None else []
        config = AgentConfig.model_validate({"agent": {"node": node, "logs": logs}}).agent
        follower = LogFollower(config.logs, node, None, self.clock) if logs else None
        gpus = FaultyGpus(fleet, node, self.clock, self.started_at, self._fault)
        return Agent(config, self.clock, gpus, follower, SimulatedHost())

    def _config(self, folder: Path) -> dict[str, Any]:
        return {
            "daemon": {
                "database": str(folder / "runwatch.db"),
                "agents": {"addresses": dict.fromkeys(self.agents, NOBODY)},
                "dead_man": {"url": NOBODY},
            },
            "runs": [{"name": run, "nodes": list(fleet.nodes)} for run, fleet in self.fleets.items()],
            "channels": {"oncall": {"console": {}}, "team": {"webhook": {"url": NOBODY}}},
        }

    async def play(self, seconds: float, each: Callable[[float], None] = lambda now: None) -> None:
        """Cycles of all agents and the daemon for so long, each at its interval; `each` hears of every one."""
        until = self.clock.now + seconds
        while self.clock.now < until:
            before = self.clock.now
            self.clock.advance(INTERVAL_SECONDS)
            for run, fleet in self.fleets.items():
                lines = fleet.log_lines(before - self.started_at, self.clock.now - self.started_at)
                with self._logs[run].open("a", encoding="utf-8") as file:
                    file.writelines(f"{line}\n" for line in lines)
            for agent in self.agents.values():
                await agent.cycle()
            assert self.daemon.dead_man is not None
            self.daemon.dead_man.last_success_at = self.clock.now
            await self.daemon.tick()
            while sum(worker.step() for worker in self._workers):
                pass
            each(self.clock.now)

    def targets(self) -> Iterator[tuple[str, str, CollectorRegistry]]:
        """Job, instance and registry of everything that has metrics."""
        yield "runwatch", "watch-host:9877", _registry(DaemonMetrics(self.daemon))
        for node, agent in self.agents.items():
            yield "runwatch-agent", f"{node}:9876", _registry(AgentMetrics(agent))

    def families(self) -> dict[str, list[Metric]]:
        """job -> the metric families of all its instances, as they are now."""
        out: dict[str, list[Metric]] = {}
        for job, _, registry in self.targets():
            out.setdefault(job, []).extend(registry.collect())
        return out


def _registry(collector: Any) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    return registry
