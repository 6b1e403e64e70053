"""What a node shows, from its files and its driver to a finding: sysfs, processes and NVML, snapshot, detectors."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pynvml
import pytest

from alerts.incidents import Incident
from detectors.registry import load_plugins
from detectors.telemetry import GpuReading, SourceHealth
from tests.support.fake_nvml import FakeNvml
from tests.support.nvml_case import MovedClock
from tests.support.runs import START
from watcher.agent.app import Agent, GpuSource
from watcher.config.agent import AgentConfig
from watcher.daemon.answer import Answer
from watcher.daemon.evaluate import build_detectors
from watcher.daemon.fold import RunFold, RunSettings
from watcher.daemon.pipeline import Pipeline, WatchedRun
from watcher.events import LogEvent
from watcher.snapshot import dump_snapshot, parse_snapshot
from watcher.sources.host import HostSource
from watcher.sources.nvml import GpuReadings, NvmlSource

INTERVAL = 10.0


class HeldGpus:
    """Eight busy cards that these processes hold."""

    replacements_count, reading_seconds, latest = 0, 0.01, None

    def __init__(self, clock: MovedClock, pids: frozenset[int] = frozenset(), utilization: float = 1.0) -> None:
        self._clock, self._pids, self._utilization = clock, pids, utilization

    async def poll(self, deadline_seconds: float) -> None:
        gpus = tuple(
            GpuReading(uuid=f"GPU-{n}", index=n, power_watts=600.0, power_limit_watts=700.0, memory_used_bytes=70,
                       memory_total_bytes=80, utilization_ratio=self._utilization, process_count=1)
            for n in range(8)
        )  # fmt: skip
        self.latest = GpuReadings(gpus, self._clock.monotonic(), pids=self._pids)

    def health(self) -> SourceHealth:
        return SourceHealth(ok=True, age_seconds=0.0)


class Watched:
    """One node, its agent and what the daemon makes of its answers."""

    def __init__(self, root: Path, gpus: Callable[[MovedClock], GpuSource] = HeldGpus) -> None:
        self.clock, self.root = MovedClock(), root
        config = AgentConfig.model_validate({"agent": {"node": "n1"}}).agent
        self.gpus = gpus(self.clock)
        self.agent = Agent(config, self.clock, self.gpus, None, HostSource(self.clock, root=root))
        self.fold = RunFold(RunSettings(name="train", nodes=("n1",), interval_seconds=INTERVAL))
        self.pipeline = Pipeline([WatchedRun(self.fold, build_detectors(load_plugins(), {}))])

    async def go_on(self, seconds: float, each: Callable[[float], None] = lambda t: None) -> None:
        for n in range(int(seconds / INTERVAL)):
            each(INTERVAL * n)
            self.clock.shift += INTERVAL
            await self.agent.cycle()
            while self.agent.host is None:  # the first look at all processes may take longer than a deadline
                await self.agent.cycle()
            snapshot = parse_snapshot(json.loads(dump_snapshot(self.agent.snapshot(None))))
            assert snapshot.rejected == ()
            self.fold.observe(Answer("n1", self.clock.time(), snapshot))
            self.pipeline.tick(self.clock.time())

    def open(self, signature: str) -> Incident | None:
        found = (i for i in self.pipeline.incidents.values() if i.signature == signature and i.state == "open")
        return next(found, None)


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + "\n")


@pytest.fixture
def root(tmp_path) -> Path:
    """A node with a network card and two InfiniBand ports, all well."""
    card = {"device": "", "operstate": "up", "carrier_up_count": "1", "carrier_down_count": "0"}
    write(tmp_path / "sys/class/net/eth0", {**card, "statistics/rx_bytes": "1000", "statistics/tx_bytes": "1000"})
    port = {"link_layer": "InfiniBand", "state": "4: ACTIVE", "counters/link_downed": "0",
            "counters/port_rcv_data": "0", "counters/port_xmit_data": "0"}  # fmt: skip
    for device in ("mlx5_0", "mlx5_1"):
        write(tmp_path / f"sys/class/infiniband/{device}/ports/1", port)
    return tmp_path


def test_a_port_that_goes_down_is_told_and_over_when_it_is_up_again(root):
    async def play() -> None:
        one = Watched(root)
        await one.go_on(120)
        assert one.open("link_fault") is None
        write(root / "sys/class/infiniband/mlx5_1/ports/1", {"state": "1: DOWN", "counters/link_downed": "1"})
        await one.go_on(120)
        assert "mlx5_1/1 is down" in one.open("link_fault").summary
        write(root / "sys/class/infiniband/mlx5_1/ports/1", {"state": "4: ACTIVE"})
        await one.go_on(900)
        assert one.open("link_fault") is None

    asyncio.run(play())


def test_a_port_that_flaps_is_told_though_it_is_up_whenever_it_is_looked_at(root):
    async def play() -> None:
        one = Watched(root)
        await one.go_on(60)
        for count in ("1", "2"):
            write(root / "sys/class/net/eth0", {"carrier_down_count": count})
            await one.go_on(60)
        assert "eth0 went down 2 times" in one.open("link_fault").summary

    asyncio.run(play())


def test_memory_that_is_nearly_full_is_told(root, monkeypatch):
    async def play() -> None:
        one = Watched(root)
        await one.go_on(60)
        assert one.open("host_memory") is None
        full = SimpleNamespace(total=100 << 30, available=2 << 30)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: full)
        await one.go_on(120)
        assert "memory 98% full" in one.open("host_memory").summary

    asyncio.run(play())


@pytest.fixture
def idle_process() -> Iterator[int]:
    process = subprocess.Popen(["sleep", "600"])
    yield process.pid
    process.kill()
    process.wait(10)


def test_a_start_where_the_hosts_do_nothing_is_critical_after_minutes_not_after_half_an_hour(root, idle_process):
    def loads(t: float) -> None:
        """The network brings data all the time."""
        path = root / "sys/class/net/eth0/statistics/rx_bytes"
        path.write_text(str(int(path.read_text()) + 500_000_000))

    async def critical_after(each: Callable[[float], None]) -> float:
        one = Watched(root, lambda clock: HeldGpus(clock, frozenset({idle_process}), utilization=0.0))
        one.fold.observe_event(START, LogEvent(event="phase", phase="startup", edge="start"))
        one.fold.observe_event(START, LogEvent(event="step", step=1))
        one.fold.observe_event(START + 5, LogEvent(event="phase", phase="startup", edge="start"))
        while one.clock.shift < 2_400:
            await one.go_on(60, each)
            incident = one.open("startup_stall")
            if incident is not None and incident.severity.label == "critical":
                return one.clock.shift
        raise AssertionError("never")

    async def play() -> None:
        assert await critical_after(lambda t: None) <= 600
        assert await critical_after(loads) >= 1_800

    asyncio.run(play())


def test_heat_is_told_by_the_counter_of_the_driver_when_it_lasts_and_one_burst_is_not(root, tmp_path):
    fake = FakeNvml(tmp_path / "nvml", gpus=4)
    held = {1: 0, 2: 0}
    counter = f"field_{pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL}"
    fake.set(**{counter: 0})

    def gpus(clock: MovedClock) -> NvmlSource:
        return NvmlSource(clock, env=fake.env())

    def heat(t: float) -> None:
        held[1] += 4_000_000_000  # of the ten seconds that passed
        held[2] += 10_000_000_000 if t == 30 else 0
        for gpu, nanoseconds in held.items():
            fake.set(gpu, **{counter: nanoseconds})

    async def play() -> None:
        one = Watched(root, gpus)
        await one.agent.cycle()
        await one.go_on(300, heat)
        told = [i for i in one.pipeline.incidents.values() if i.signature == "gpu_throttled"]
        assert [(i.subject.gpu_index, i.state) for i in told] == [(1, "open")]
        assert "sw_thermal 4" in told[0].summary
        await one.gpus.close()

    asyncio.run(play())
