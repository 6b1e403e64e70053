"""The agent's metrics as Prometheus sees them: names by its rules, few series, everything fresh."""

from __future__ import annotations

import asyncio
import shutil
import subprocess

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from detectors.telemetry import GpuReading, SourceHealth
from watcher.agent.app import Agent
from watcher.agent.metrics import AgentMetrics
from watcher.agent.xids import Xid
from watcher.clock import FakeClock
from watcher.config.agent import AgentConfig
from watcher.sources.host import HostSource
from watcher.sources.nvml import GpuReadings


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
        more |= {"remap_pending": False, "remap_failed": False, "ecc_enabled": True, "nvlink_bytes_per_second": 1.0}
        ratios = {"sw_thermal": 0.0, "hw_slowdown": 0.0}
        gpus = tuple(GpuReading(uuid=f"GPU-{i}", index=i, throttle_ratios=ratios, **more) for i in range(8))
        self.latest = GpuReadings(gpus, self._clock.monotonic())

    def health(self) -> SourceHealth:
        return SourceHealth(ok=True, age_seconds=0.0)


@pytest.fixture(scope="module")
def text() -> str:
    clock = FakeClock()
    config = AgentConfig.model_validate({"agent": {"node": "n01"}}).agent
    agent = Agent(config, clock, FullGpus(clock), None, HostSource(clock))
    agent.asked_at = clock.time()
    asyncio.run(agent.cycle())
    agent.xids.add(Xid("nvml", 0.0, 79, "GPU-3", None))
    registry = CollectorRegistry()
    registry.register(AgentMetrics(agent))
    return generate_latest(registry).decode()


def test_promtool_finds_nothing_to_complain_of(text):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_series_is_there_twice_and_a_gpu_has_no_more_than_fifty(text):
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    keys = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in samples]
    assert len(keys) == len(set(keys))
    assert 30 <= sum(sample.labels.get("gpu") == "GPU-0" for sample in samples) <= 50


def test_labels_name_the_card_and_nothing_that_a_job_could_change(text):
    labels = {name for f in text_string_to_metric_families(text) for s in f.samples for name in s.labels}
    fixed = {"node", "gpu", "source", "reason", "xid", "counter", "kind", "mount", "port", "version"}
    assert labels <= fixed | {"index", "name", "pci_bus_id", "serial"}


def test_an_xid_is_a_counter_per_code(text):
    assert 'runwatch_gpu_xid_errors_total{gpu="GPU-3",node="n01",xid="79"} 1.0' in text
