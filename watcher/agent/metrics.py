"""The agent's Prometheus metrics, from memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector as MetricsCollector

from watcher import __version__
from watcher.agent.gpu_metrics import gpu_metrics
from watcher.agent.host_metrics import host_metrics
from watcher.snapshot import Snapshot

if TYPE_CHECKING:
    from watcher.agent.app import Agent


class AgentMetrics(MetricsCollector):
    """Register it once per agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def collect(self) -> Iterator[Metric]:
        agent = self._agent
        now = agent.snapshot(f"{agent.ring.stream}:{agent.ring.next_seq}")  # readings and no events
        yield from self._own()
        yield from self._inventory(now)
        yield from gpu_metrics(now.node, now.gpus, agent.xids.counts)
        yield from host_metrics(now.node, now.host)

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
        reading = GaugeMetricFamily(
            "runwatch_agent_gpu_reading_seconds", "How long the last reading of all GPUs took.", labels=["node"]
        )
        if agent.gpus.reading_seconds is not None:
            reading.add_metric([node], agent.gpus.reading_seconds)
        yield from (asked, reading)

    def _inventory(self, now: Snapshot) -> Iterator[Metric]:
        expected = GaugeMetricFamily("runwatch_agent_gpus_expected", "GPUs that shall be here.", labels=["node"])
        present = GaugeMetricFamily("runwatch_agent_gpus_present", "GPUs that answer.", labels=["node"])
        if self._agent.most_gpus is not None:
            expected.add_metric([now.node], now.expected_gpus or self._agent.most_gpus)
        if now.gpus:
            present.add_metric([now.node], sum(gpu.state != "lost" for gpu in now.gpus))
        yield from (expected, present)

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
