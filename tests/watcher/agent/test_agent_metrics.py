"""The agent's metrics as Prometheus sees them: few series, a fixed identity, everything fresh."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from detectors.telemetry import GpuReading, HostReading
from tests.support.full_agent import full_agent, registry_of
from watcher.agent.app import Agent
from watcher.agent.gpu_metrics import gpu_metrics
from watcher.agent.heard import Heard
from watcher.agent.host_metrics import host_metrics
from watcher.events import LogEvent


@pytest.fixture(scope="module")
def agent(tmp_path_factory) -> Agent:
    return full_agent(tmp_path_factory.mktemp("agent"))


@pytest.fixture(scope="module")
def registry(agent) -> CollectorRegistry:
    return registry_of(agent)


@pytest.fixture(scope="module")
def families(registry) -> list[Metric]:
    return list(registry.collect())


def test_no_series_is_there_twice_and_a_gpu_has_no_more_than_fifty(families):
    samples = [sample for family in families for sample in family.samples]
    keys = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in samples]
    assert len(keys) == len(set(keys))
    assert 30 <= sum(sample.labels.get("gpu") == "GPU-0" for sample in samples) <= 50


def test_labels_name_the_card_and_nothing_that_a_job_could_change(families):
    labels = {name for family in families for sample in family.samples for name in sample.labels}
    fixed = {"node", "gpu", "source", "reason", "xid", "counter", "kind", "mount", "port", "version", "phase"}
    assert labels <= fixed | {"index", "name", "pci_bus_id", "serial"}


def test_an_xid_is_a_counter_per_code_and_every_gpu_counts_those_of_the_hardware_from_0(registry):
    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"node": "n01", **labels})

    assert value("runwatch_gpu_xid_errors_total", gpu="GPU-3", xid="79") == 1
    assert value("runwatch_gpu_hardware_xids_total", gpu="GPU-3") == 1
    assert value("runwatch_gpu_hardware_xids_total", gpu="GPU-0") == 0


def test_what_the_logs_told_is_there_without_a_daemon(registry):
    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"runwatch_agent_log_{name}", {"node": "n01", **labels})

    assert value("steps_total") == 1
    assert value("last_step") == 7
    assert value("phase", phase="training") == 1
    assert value("phase", phase="checkpoint") == 0
    assert value("reported_errors_total") == 0
    assert value("last_line_timestamp_seconds") is not None
    assert value("last_progress_timestamp_seconds") is not None


def test_what_the_driver_does_not_answer_any_more_is_absent_and_its_age_goes_on(tmp_path):
    agent = full_agent(tmp_path)

    async def silent(deadline_seconds: float) -> None:
        return

    agent.gpus.poll = silent
    agent.clock.advance(600)
    asyncio.run(agent.cycle())
    registry = registry_of(agent)
    assert not [s for f in registry.collect() for s in f.samples if s.name == "runwatch_gpu_power_watts"]
    assert registry.get_sample_value("runwatch_agent_gpus_present", {"node": "n01"}) is None


def test_two_readings_of_one_name_do_not_cost_the_scrape():
    twice = [GpuReading(uuid="GPU-1", index=0, power_watts=300.0), GpuReading(uuid="GPU-1", index=1, power_watts=1.0)]
    (power,) = [f for f in gpu_metrics("n", twice, Counter()) if f.name == "runwatch_gpu_power_watts"]
    assert [(s.labels["gpu"], s.value) for s in power.samples] == [("GPU-1", 300.0)]


def test_a_name_that_is_no_utf8_costs_no_scrape():
    mounts = {"/data/\udcff": (1, 2), "/ok": (1, 2)}
    registry = CollectorRegistry()

    class Host:
        def collect(self):
            return host_metrics("n", HostReading(disks=mounts))

    registry.register(Host())
    assert 'mount="/data/?"' in generate_latest(registry).decode()


def test_a_phase_lasts_until_its_end_or_the_next_step_and_an_error_is_no_progress():
    heard = Heard()
    heard.note(1.0, LogEvent(event="phase", phase="startup", edge="start"))
    assert heard.phase == "startup"
    heard.note(2.0, LogEvent(event="step", step=5))
    heard.note(3.0, LogEvent(event="phase", phase="checkpoint", edge="start"))
    assert (heard.phase, heard.last_step, heard.last_progress_at) == ("checkpoint", 5, 3.0)
    heard.note(4.0, LogEvent(event="phase", phase="checkpoint", edge="end"))
    assert heard.phase == "training"
    heard.note(9.0, LogEvent(event="error", kind="other"))
    assert (heard.errors_count, heard.last_progress_at) == (1, 4.0)
