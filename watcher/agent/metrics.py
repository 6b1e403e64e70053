"""The agent's Prometheus metrics, from memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import Metric
from prometheus_client.registry import Collector as MetricsCollector

from watcher import __version__
from watcher.agent.gpu_metrics import gpu_metrics
from watcher.agent.host_metrics import host_metrics
from watcher.agent.log_metrics import log_metrics
from watcher.families import counter, gauge, info
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
        if agent.follower is not None:
            yield from log_metrics(now.node, agent.heard, agent.follower.tally, self._last_line_at(now))
        yield from gpu_metrics(now.node, now.gpus, agent.xids.counts)
        yield from host_metrics(now.node, now.host)

    def _last_line_at(self, now: Snapshot) -> float | None:
        ages = [log.last_line_age_seconds for log in now.logs if log.last_line_age_seconds is not None]
        return now.sent_at - min(ages) if ages else None

    def _own(self) -> Iterator[Metric]:
        agent, node = self._agent, (self._agent.config.node,)
        yield info("runwatch_agent", "Version of the agent.", ["node"], [(node, {"version": __version__})])
        sources = agent.health().items()
        yield gauge(
            "runwatch_agent_source_up",
            "1 where the source answered last time, else 0.",
            ["node", "source"],
            (((*node, name), health.ok) for name, health in sources),
        )
        yield gauge(
            "runwatch_agent_source_age_seconds",
            "Time since the source last answered.",
            ["node", "source"],
            (((*node, name), health.age_seconds) for name, health in sources),
        )
        for name, text, count in (
            ("runwatch_agent_cycles", "Cycles since the start.", agent.cycles_count),
            ("runwatch_agent_gpu_reader_replacements", "Readers that hung or crashed.", agent.gpus.replacements_count),
            ("runwatch_agent_log_reads_late", "Reads of logs past their deadline.", agent.log_reads_late_count),
            ("runwatch_agent_events", "Log events and XIDs since the start.", agent.ring.next_seq),
        ):
            yield counter(name, text, ["node"], [(node, count)])
        push = agent.push
        for name, text, times in (
            ("runwatch_agent_pushes", "Snapshots that the daemon took.", push.taken_count if push else None),
            ("runwatch_agent_push_failures", "Attempts to push that failed.", push.failed_count if push else None),
        ):
            yield counter(name, text, ["node"], [(node, times)])
        for name, text, value in (
            (
                "runwatch_agent_interval_seconds",
                "Time between two cycles, as configured.",
                agent.config.interval_seconds,
            ),
            (
                "runwatch_agent_last_snapshot_request_timestamp_seconds",
                "When a daemon last asked, or took what was pushed.",
                agent.asked_at,
            ),
            (
                "runwatch_agent_certificate_expiry_timestamp_seconds",
                "When the certificate of the agent's listener ends.",
                agent.tls.expires_at if agent.tls is not None else None,
            ),
            (
                "runwatch_agent_gpu_reading_seconds",
                "How long the last reading of all GPUs took.",
                agent.gpus.reading_seconds,
            ),
        ):
            yield gauge(name, text, ["node"], [(node, value)])

    def _inventory(self, now: Snapshot) -> Iterator[Metric]:
        most = self._agent.most_gpus
        expected = None if most is None else now.expected_gpus or most
        present = sum(gpu.state != "lost" for gpu in now.gpus) if now.gpus else None
        yield gauge("runwatch_agent_gpus_expected", "GPUs that shall be here.", ["node"], [((now.node,), expected)])
        yield gauge("runwatch_agent_gpus_present", "GPUs that answer.", ["node"], [((now.node,), present)])
