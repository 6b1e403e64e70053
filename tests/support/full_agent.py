"""An agent whose eight cards, node and logs have every reading there is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

from prometheus_client import CollectorRegistry, ProcessCollector

from detectors.telemetry import GpuReading, SourceHealth
from tests.support.watched_fleet import SimulatedHost
from watcher.agent.app import Agent
from watcher.agent.follow import LogFollower
from watcher.agent.metrics import AgentMetrics
from watcher.agent.push_state import PushState
from watcher.agent.xids import Xid
from watcher.clock import FakeClock
from watcher.config.agent import AgentConfig
from watcher.sources.nvml import GpuReadings

GPUS = 8
LOG = (
    "> initializing torch distributed ...\n"
    " iteration        7/     500 | consumed samples:          112 | elapsed time per iteration (ms): 1000.0 | "
    "lm loss: 2.5E+00 |\n"
)


class FullGpus:
    """Eight cards with every reading there is."""

    replacements_count = 0
    reading_seconds = 0.02

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.latest: GpuReadings | None = None

    async def poll(self, deadline_seconds: float) -> None:
        fields = [f for f in GpuReading.__dataclass_fields__ if f.endswith(("_count", "_ratio", "_bytes", "_watts"))]
        more = dict.fromkeys([*fields, "energy_joules", "temperature_celsius", "memory_temperature_celsius"], 1)
        more |= dict.fromkeys(["pcie_width", "pcie_width_max", "pcie_generation", "sm_clock_mhz"], 1)
        more |= {
            "unread_seconds": 0.0,
            "remap_pending": False,
            "remap_failed": False,
            "ecc_enabled": True,
            "nvlink_bytes_per_second": 1.0,
            "pcie_bytes_per_second": 1.0,
        }
        ratios = dict.fromkeys(["sw_power_cap", "sw_thermal", "hw_thermal", "hw_power_brake"], 0.0)
        gpus = tuple(
            GpuReading(uuid=f"GPU-{i}", index=i, name="H100", serial=f"{i}", pci_bus_id=f"{i}", throttle_ratios=ratios,
                       **more)
            for i in range(GPUS)
        )  # fmt: skip
        self.latest = GpuReadings(gpus, self._clock.monotonic())

    def health(self) -> SourceHealth:
        return SourceHealth(ok=True, age_seconds=0.0)


def full_agent(folder: Path) -> Agent:
    """After one cycle; a daemon has asked and takes what is pushed, and GPU 3 had one XID."""
    clock = FakeClock()
    log = folder / "train.log"
    log.write_text("")
    config = AgentConfig.model_validate({"agent": {"node": "n01", "logs": [str(log)]}}).agent
    agent = Agent(config, clock, FullGpus(clock), LogFollower(config.logs, "n01", None, clock), SimulatedHost())
    agent.asked_at, agent.push = clock.time(), PushState()
    agent.tls = SimpleNamespace(expires_at=clock.time() + 86_400)
    asyncio.run(agent.cycle())
    log.write_text(LOG)
    clock.advance(10)
    asyncio.run(agent.cycle())
    agent.xids.add(Xid("nvml", 0.0, 79, "GPU-3", None))
    return agent


def registry_of(agent: Agent) -> CollectorRegistry:
    """As its /metrics has it."""
    registry = CollectorRegistry()
    registry.register(AgentMetrics(agent))
    ProcessCollector(registry=registry)
    return registry
