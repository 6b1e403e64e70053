"""The daemon's Prometheus metrics, read from its state at each scrape. Labels are names from the config, never text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector as MetricsCollector

from watcher import __version__

if TYPE_CHECKING:
    from watcher.daemon.app import Daemon

SEVERITIES = ("info", "warning", "critical")
RESULTS = ("sent", "retry", "rejected", "rejected_once", "fallback", "dropped")


class DaemonMetrics(MetricsCollector):
    """Register it once per daemon."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def collect(self) -> Iterator[Metric]:
        yield from self._own()
        yield from self._runs()
        yield from self._nodes()
        yield from self._alerts()

    def _own(self) -> Iterator[Metric]:
        health = self._daemon.health
        yield _gauge("runwatch_build_info", "Version of the daemon.", [(("version", __version__), 1.0)])
        yield _gauge("runwatch_config_info", "Which config is in use.", [(("hash", self._daemon.config_hash), 1.0)])
        yield _plain("runwatch_tick_duration_seconds", "How long the last cycle took.", health.tick_seconds)
        yield _plain("runwatch_last_tick_timestamp_seconds", "End of the last cycle.", health.last_tick_at)
        yield _plain(
            "runwatch_last_good_cycle_timestamp_seconds",
            "End of the last cycle in which asking, judging, storing and sending all worked.",
            health.last_good_cycle_at,
        )
        yield _total("runwatch_ticks", "Cycles since the start.", health.ticks_count)
        yield _total("runwatch_tick_errors", "Cycles that failed.", health.errors_count)
        yield _total("runwatch_ticks_skipped", "Cycles not judged after a jump of the clock.", health.skipped_count)
        store_ok = self._daemon.desk.store_error is None
        yield _plain("runwatch_store_up", "Whether the database takes what is decided.", float(store_ok))
        failures = CounterMetricFamily("runwatch_detector_failures", "Exceptions of a detector.", labels=["detector"])
        for name in sorted({a.plugin.name for run in self._daemon.runs for a in run.detectors}):
            failures.add_metric([name], self._daemon.evaluator.failures[name])
        yield failures
        if self._daemon.dead_man is not None:
            yield _plain(
                "runwatch_dead_man_last_success_timestamp_seconds",
                "When the dead-man URL last took a ping.",
                self._daemon.dead_man.last_success_at,
            )

    def _runs(self) -> Iterator[Metric]:
        names = {
            "step": GaugeMetricFamily("runwatch_run_step", "Last step of the run.", labels=["run"]),
            "progress": GaugeMetricFamily(
                "runwatch_run_last_progress_timestamp_seconds", "When the run last progressed.", labels=["run"]
            ),
            "loss": GaugeMetricFamily("runwatch_run_loss", "Last loss that was logged.", labels=["run"]),
            "attempt": GaugeMetricFamily("runwatch_run_attempt", "Number of the present launch.", labels=["run"]),
            "gap": GaugeMetricFamily(
                "runwatch_run_longest_gap_seconds", "Longest learnt gap of the present phase.", labels=["run"]
            ),
            "power": GaugeMetricFamily(
                "runwatch_run_working_power_watts", "Learnt median power of a GPU at work.", labels=["run"]
            ),
        }
        phases = GaugeMetricFamily("runwatch_run_phase", "1 for the present phase of the run.", labels=["run", "phase"])
        for run, frame in sorted(self._daemon.frames.items()):
            progress, learnt = frame.progress, frame.learnt
            gap = learnt.gaps.get(frame.phase.name)
            values = {
                "step": progress.last_step,
                "progress": progress.last_progress_at,
                "loss": progress.records[-1].loss if progress.records else None,
                "attempt": frame.attempt.number,
                "gap": gap.longest_seconds if gap is not None else None,
                "power": learnt.power.run_median_watts if learnt.power is not None else None,
            }
            for name, value in values.items():
                if value is not None:
                    names[name].add_metric([run], float(value))
            for phase in ("startup", "training", "evaluation", "checkpoint", "finished"):
                phases.add_metric([run, phase], float(frame.phase.name == phase))
        yield from names.values()
        yield phases

    def _nodes(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("runwatch_agent_up", "Whether the agent answered last time.", labels=["node"])
        age = GaugeMetricFamily("runwatch_agent_data_age_seconds", "Age of the GPU readings.", labels=["node"])
        skew = GaugeMetricFamily("runwatch_agent_clock_skew_seconds", "Clock of the node minus ours.", labels=["node"])
        for node, answer in sorted(self._daemon.answers.items()):
            up.add_metric([node], float(answer.snapshot is not None))
            if answer.snapshot is not None:
                skew.add_metric([node], answer.snapshot.sent_at - answer.received_at)
                if answer.snapshot.gpus_age_seconds is not None:
                    age.add_metric([node], answer.snapshot.gpus_age_seconds)
        yield from (up, age, skew)

    def _alerts(self) -> Iterator[Metric]:
        open_now = GaugeMetricFamily("runwatch_incidents_open", "Incidents that are open.", labels=["severity"])
        incidents = [i for i in self._daemon.desk.incidents.values() if i.state == "open" and not i.shadow]
        for severity in SEVERITIES:
            open_now.add_metric([severity], sum(i.severity.label == severity for i in incidents))
        yield open_now
        counts = self._daemon.desk.outbox.counts()
        deliveries = CounterMetricFamily(
            "runwatch_deliveries", "Attempts to send a message, by result.", labels=["channel", "result"]
        )
        pending = GaugeMetricFamily("runwatch_deliveries_pending", "Messages that wait to be sent.", labels=["channel"])
        success = GaugeMetricFamily(
            "runwatch_delivery_last_success_timestamp_seconds", "When a message last went out.", labels=["channel"]
        )
        for health in self._daemon.desk.outbox.health():
            known = {result for channel, result in counts if channel == health.channel}
            for result in sorted({*RESULTS, *known}):
                deliveries.add_metric([health.channel, result], counts.get((health.channel, result), 0))
            pending.add_metric([health.channel], health.pending)
            if health.last_success_at is not None:
                success.add_metric([health.channel], health.last_success_at)
        yield from (deliveries, pending, success)


def _plain(name: str, text: str, value: float | None) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value) if value is not None else GaugeMetricFamily(name, text, labels=[])


def _total(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, value=value)


def _gauge(name: str, text: str, rows: Iterable[tuple[tuple[str, str], float]]) -> GaugeMetricFamily:
    rows = list(rows)
    family = GaugeMetricFamily(name, text, labels=[label for (label, _), _ in rows[:1]])
    for (_, value), number in rows:
        family.add_metric([value], number)
    return family
