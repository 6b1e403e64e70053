"""A simulated fleet in real time: agents on loopback with a token, a log that grows, GPUs that hang when told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from alerts.secret import Secret
from detectors.telemetry import SourceHealth
from tests.support.watched_fleet import SimulatedHost
from watcher.agent.app import Agent
from watcher.agent.follow import LogFollower
from watcher.agent.http import build_app
from watcher.agent.server import serving
from watcher.bind import bind
from watcher.clock import SystemClock
from watcher.config.agent import AgentConfig
from watcher.config.listen import Listen
from watcher.simulate.fleet import Fleet
from watcher.simulate.script import Kind, Script, Stretch
from watcher.sources.nvml import GpuReadings

NODES = ("gpu-node-01", "gpu-node-02")
STEP = (
    " iteration {step:8d}/    5000 | consumed samples: {step:12d} | elapsed time per iteration (ms): 500.0 | "
    "lm loss: 2.1E+00 |\n"
)
STEP_REAL_SECONDS = 0.5


def _forever(kind: Kind) -> Fleet:
    return Fleet(script=Script(name=kind, about=kind, stretches=(Stretch(kind, 1e9),), signature=""), nodes=NODES)


class SwitchedGpus:
    """What all GPUs do is what the fleet does now."""

    replacements_count = 0
    reading_seconds = 0.01

    def __init__(self, fleet: LiveFleet, node: str) -> None:
        self._fleet, self._node = fleet, node
        self.latest: GpuReadings | None = None

    async def poll(self, deadline_seconds: float) -> None:
        clock = self._fleet.clock
        readings = self._fleet.fleets[self._fleet.kind].readings(self._node, clock.monotonic())
        self.latest = GpuReadings(readings, clock.monotonic())

    def health(self) -> SourceHealth:
        return SourceHealth(ok=self.latest is not None, age_seconds=0.0)

    async def close(self) -> None:
        return


class LiveFleet:
    """`kind`: "train" or "spin"; in training the log has a step every half second. `addresses`: node -> HOST:PORT."""

    def __init__(self, folder: Path, token: str) -> None:
        self.kind: Kind = "train"
        self.clock = SystemClock()
        self.fleets = {kind: _forever(kind) for kind in ("train", "spin")}
        self.addresses: dict[str, str] = {}
        self._log, self._token = folder / "train.log", Secret(token)
        self._log.touch()
        self._loop = asyncio.new_event_loop()
        self._up, self._stop = threading.Event(), asyncio.Event()
        self._agents: dict[str, Agent] = {}
        self._listeners: dict[str, AsyncExitStack] = {}
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._live()), daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._up.wait(20)

    def silence(self, node: str) -> None:
        """Its agent answers nobody any more."""
        asyncio.run_coroutine_threadsafe(self._listeners.pop(node).aclose(), self._loop).result(10)

    def answer(self, node: str) -> None:
        """It does again, at the same address."""
        asyncio.run_coroutine_threadsafe(self._listen(node), self._loop).result(10)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        self._loop.close()

    async def _live(self) -> None:
        cycles = []
        for node in NODES:
            logs = [str(self._log)] if node == NODES[0] else []
            config = AgentConfig.model_validate({"agent": {"node": node, "interval_seconds": 1, "logs": logs}}).agent
            follower = LogFollower(config.logs, node, None, self.clock) if logs else None
            self._agents[node] = Agent(config, self.clock, SwitchedGpus(self, node), follower, SimulatedHost())
            await self._agents[node].cycle()
            await self._listen(node)
            cycles.append(asyncio.create_task(self._agents[node].run(self._stop)))
        cycles.append(asyncio.create_task(self._train()))
        self._up.set()
        await asyncio.gather(*cycles)
        for listener in self._listeners.values():
            await listener.aclose()

    async def _listen(self, node: str) -> None:
        port = int(self.addresses[node].rpartition(":")[2]) if node in self.addresses else 0
        sock = bind(Listen("127.0.0.1", port))
        self.addresses[node] = f"127.0.0.1:{sock.getsockname()[1]}"
        self._listeners[node] = AsyncExitStack()
        await self._listeners[node].enter_async_context(serving(build_app(self._agents[node], self._token), sock))

    async def _train(self) -> None:
        step = 4100
        while not self._stop.is_set():
            if self.kind == "train":
                step += 1
                with self._log.open("a") as file:
                    file.write(STEP.format(step=step))
            await asyncio.sleep(STEP_REAL_SECONDS)


@contextmanager
def live_fleet(folder: Path, token: str) -> Iterator[LiveFleet]:
    """Two nodes of eight GPUs in training, until the end of the block."""
    fleet = LiveFleet(folder, token)
    fleet.start()
    try:
        yield fleet
    finally:
        fleet.close()
