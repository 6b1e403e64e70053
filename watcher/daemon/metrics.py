"""The daemon's Prometheus metrics, read from its state at each scrape. Labels are names from the config, never text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import Metric
from prometheus_client.registry import Collector as MetricsCollector

from watcher import __version__
from watcher.daemon.node_metrics import node_metrics
from watcher.daemon.pushed import REASONS, Pushed
from watcher.daemon.run_metrics import run_metrics
from watcher.families import counter, gauge, info

if TYPE_CHECKING:
    from watcher.daemon.app import Daemon

SEVERITIES = ("info", "warning", "critical")
RESULTS = ("sent", "retry", "rejected", "rejected_once", "fallback", "dropped")


class DaemonMetrics(MetricsCollector):
    """Register it once per daemon."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def collect(self) -> Iterator[Metric]:
        daemon = self._daemon
        frames = dict(daemon.frames)
        yield from self._own()
        yield from run_metrics(frames, list(daemon.desk.incidents.values()))
        yield from node_metrics(daemon.answers, frames.values(), daemon.clock.time())
        yield from self._incidents()
        yield from self._deliveries()
        yield from self._pushes()

    def _own(self) -> Iterator[Metric]:
        daemon, health = self._daemon, self._daemon.health
        yield info("runwatch_build", "Version of the daemon.", (), [((), {"version": __version__})])
        yield info("runwatch_config", "Which config is in use.", (), [((), {"hash": daemon.config_hash})])
        for name, text, value in (
            ("runwatch_interval_seconds", "Time between two cycles, as configured.", daemon.interval_seconds),
            ("runwatch_tick_duration_seconds", "How long the last cycle took.", health.tick_seconds),
            ("runwatch_last_tick_timestamp_seconds", "End of the last cycle.", health.last_tick_at),
            (
                "runwatch_last_good_cycle_timestamp_seconds",
                "End of the last cycle in which asking, judging, storing and sending all worked.",
                health.last_good_cycle_at,
            ),
            ("runwatch_start_timestamp_seconds", "When the daemon began to watch.", health.started_at),
            (
                "runwatch_store_up",
                "1 while the database takes what is decided, else 0.",
                daemon.desk.store_error is None,
            ),
            (
                "runwatch_certificate_expiry_timestamp_seconds",
                "When the certificate of the daemon's listener ends.",
                daemon.tls.expires_at if daemon.tls is not None else None,
            ),
            (
                "runwatch_dead_man_last_success_timestamp_seconds",
                "When the dead-man URL last took a ping.",
                daemon.dead_man.last_success_at if daemon.dead_man is not None else None,
            ),
        ):
            yield gauge(name, text, (), [((), value)])
        for name, text, count in (
            ("runwatch_ticks", "Cycles since the start.", health.ticks_count),
            ("runwatch_tick_errors", "Cycles that failed.", health.errors_count),
            ("runwatch_ticks_skipped", "Cycles not judged after a jump of the clock.", health.skipped_count),
        ):
            yield counter(name, text, (), [((), count)])
        yield counter(
            "runwatch_detector_failures",
            "Exceptions of a detector, over all runs.",
            ["detector"],
            (((name,), daemon.evaluator.failures[name]) for name in self._detectors()),
        )

    def _detectors(self) -> list[str]:
        return sorted({active.plugin.name for run in self._daemon.runs for active in run.detectors})

    def _incidents(self) -> Iterator[Metric]:
        live = [i for i in self._daemon.desk.incidents.values() if i.state == "open" and not i.shadow]
        yield gauge(
            "runwatch_incidents_open",
            "Incidents that are open, over all runs and the watchdog itself.",
            ["severity"],
            (((severity,), sum(i.severity.label == severity for i in live)) for severity in SEVERITIES),
        )
        rows: dict[tuple[str, str], int] = {}
        for run in self._daemon.runs:
            for active in run.detectors:
                rows[run.fold.settings.name, active.plugin.name] = 0
        for incident in live:
            if incident.run is not None:
                key = incident.run, incident.signature
                rows[key] = rows.get(key, 0) + 1
        yield gauge(
            "runwatch_run_incidents_open",
            "Incidents of the run that are open, by signature.",
            ["run", "signature"],
            sorted(rows.items()),
        )
        opened = dict.fromkeys(rows, 0) | dict(self._daemon.opened)
        yield counter(
            "runwatch_run_incidents_opened",
            "Incidents of the run that were opened since the start of the daemon, by signature.",
            ["run", "signature"],
            sorted(opened.items()),
        )

    def _deliveries(self) -> Iterator[Metric]:
        counts = self._daemon.desk.outbox.counts()
        channels = self._daemon.desk.outbox.health()
        rows: dict[tuple[str, str], int] = {}
        for health in channels:
            known = {result for channel, result in counts if channel == health.channel}
            for result in sorted({*RESULTS, *known}):
                rows[health.channel, result] = counts.get((health.channel, result), 0)
        yield counter(
            "runwatch_deliveries", "Attempts to send a message, by result.", ["channel", "result"], rows.items()
        )
        yield gauge(
            "runwatch_deliveries_pending",
            "Messages that wait to be sent.",
            ["channel"],
            (((health.channel,), health.pending) for health in channels),
        )
        yield gauge(
            "runwatch_delivery_last_success_timestamp_seconds",
            "When a message last went out.",
            ["channel"],
            (((health.channel,), health.last_success_at) for health in channels),
        )

    def _pushes(self) -> Iterator[Metric]:
        sources = [source for source in self._daemon.sources if isinstance(source, Pushed)]
        yield counter("runwatch_pushes", "Snapshots that nodes sent.", (), (((), s.taken_count) for s in sources))
        yield counter(
            "runwatch_pushes_refused",
            "Pushes that were not taken, by reason.",
            ["reason"],
            (((reason,), source.refused[reason]) for source in sources for reason in REASONS),
        )
