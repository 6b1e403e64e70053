"""The agent's Prometheus metrics, from memory. GPU series carry node and UUID, nothing that a job could change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector as MetricsCollector

from watcher import __version__

if TYPE_CHECKING:
    from watcher.agent.app import Agent

GAUGES = {
    "power_watts": ("runwatch_gpu_power_watts", "Board power."),
    "power_limit_watts": ("runwatch_gpu_power_limit_watts", "Enforced power limit."),
    "utilization_ratio": ("runwatch_gpu_utilization_ratio", "Share of time in which any kernel ran."),
    "memory_utilization_ratio": (
        "runwatch_gpu_memory_utilization_ratio",
        "Share of time in which memory was accessed.",
    ),
    "memory_used_bytes": ("runwatch_gpu_memory_used_bytes", "Memory in use."),
    "memory_total_bytes": ("runwatch_gpu_memory_size_bytes", "Memory of the card."),
    "temperature_celsius": ("runwatch_gpu_temperature_celsius", "Temperature of the GPU."),
    "sm_clock_mhz": ("runwatch_gpu_sm_clock_hertz", "Clock of the multiprocessors."),
    "process_count": ("runwatch_gpu_processes", "Compute processes on the GPU."),
    "remap_pending": ("runwatch_gpu_row_remap_pending", "1 while a row remap waits for a reset."),
    "remap_failed": ("runwatch_gpu_row_remap_failed", "1 after a row remap failed."),
}
SCALE = {"sm_clock_mhz": 1e6}
COUNTERS = {
    "energy_joules": ("runwatch_gpu_energy_joules", "Energy since the driver was loaded."),
}
ECC = {
    "ecc_volatile_corrected_count": ("volatile", "corrected"),
    "ecc_volatile_uncorrected_count": ("volatile", "uncorrected"),
    "ecc_aggregate_corrected_count": ("aggregate", "corrected"),
    "ecc_aggregate_uncorrected_count": ("aggregate", "uncorrected"),
}
SOURCES = ("nvml", "logs")


class AgentMetrics(MetricsCollector):
    """Register it once per agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def collect(self) -> Iterator[Metric]:
        yield from self._own()
        yield from self._gpus()

    def _own(self) -> Iterator[Metric]:
        agent = self._agent
        node = agent.config.node
        info = InfoMetricFamily("runwatch_agent", "Version of the agent.", labels=["node"])
        info.add_metric([node], {"version": __version__})
        yield info
        up = GaugeMetricFamily("runwatch_agent_source_up", "Whether the source answered.", labels=["node", "source"])
        age = GaugeMetricFamily(
            "runwatch_agent_source_age_seconds", "Time since the source last answered.", labels=["node", "source"]
        )
        for name, health in agent.health().items():
            up.add_metric([node, name], float(health.ok))
            if health.age_seconds is not None:
                age.add_metric([node, name], health.age_seconds)
        yield from (up, age)
        for name, text, value in (
            ("runwatch_agent_cycles", "Cycles since the start.", agent.cycles_count),
            ("runwatch_agent_gpu_reader_replacements", "Readers that hung or crashed.", agent.gpus.replacements_count),
            ("runwatch_agent_log_reads_late", "Reads of logs past their deadline.", agent.log_reads_late_count),
            ("runwatch_agent_events", "Log events and XIDs since the start.", agent.ring.next_seq),
            *self._logs(),
        ):
            counter = CounterMetricFamily(name, text, labels=["node"])
            counter.add_metric([node], value)
            yield counter
        asked = GaugeMetricFamily(
            "runwatch_agent_last_snapshot_request_timestamp_seconds", "When a daemon last asked.", labels=["node"]
        )
        if agent.asked_at is not None:
            asked.add_metric([node], agent.asked_at)
        yield asked

    def _logs(self) -> list[tuple[str, str, float]]:
        follower = self._agent.follower
        if follower is None:
            return []
        tally = follower.tally
        return [
            ("runwatch_agent_log_rotations", "Logs that were rotated or truncated.", tally.rotations),
            ("runwatch_agent_log_errors", "Errors of the file systems that hold logs.", tally.errors),
            ("runwatch_agent_log_skipped_bytes", "Bytes of logs that were too many to read.", tally.skipped_bytes),
            ("runwatch_agent_log_cut_lines", "Lines of logs that were too long and were cut.", tally.long_lines),
        ]

    def _gpus(self) -> Iterator[Metric]:
        agent = self._agent
        node = agent.config.node
        gpus = agent.snapshot(f"{agent.ring.stream}:{agent.ring.next_seq}").gpus
        labels = ["node", "gpu"]
        info = InfoMetricFamily("runwatch_gpu", "What is fixed of a GPU.", labels=labels)
        lost = GaugeMetricFamily("runwatch_gpu_lost", "1 while the driver says that the GPU is lost.", labels=labels)
        for gpu in gpus:
            fixed = {"index": str(gpu.index), "name": gpu.name, "pci_bus_id": gpu.pci_bus_id, "serial": gpu.serial}
            info.add_metric([node, gpu.uuid], {key: value for key, value in fixed.items() if value})
            lost.add_metric([node, gpu.uuid], float(gpu.state == "lost"))
        yield from (info, lost)
        for attribute, (name, text) in GAUGES.items():
            gauge = GaugeMetricFamily(name, text, labels=labels)
            for gpu in gpus:
                value = getattr(gpu, attribute)
                if value is not None:
                    gauge.add_metric([node, gpu.uuid], float(value) * SCALE.get(attribute, 1.0))
            yield gauge
        for attribute, (name, text) in COUNTERS.items():
            counter = CounterMetricFamily(name, text, labels=labels)
            for gpu in gpus:
                value = getattr(gpu, attribute)
                if value is not None:
                    counter.add_metric([node, gpu.uuid], float(value))
            yield counter
        ecc = CounterMetricFamily(
            "runwatch_gpu_ecc_errors", "ECC errors by counter and kind.", labels=[*labels, "counter", "kind"]
        )
        for gpu in gpus:
            for attribute, (which, kind) in ECC.items():
                value = getattr(gpu, attribute)
                if value is not None:
                    ecc.add_metric([node, gpu.uuid, which, kind], value)
        yield ecc
