"""A config and a few options -> what to fetch, and the runs to judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from detectors.registry import load_plugins
from watcher.config.daemon import DaemonConfig, RunSection
from watcher.config.detectors import settled
from watcher.config.one_kind import chosen
from watcher.daemon.build import run_fold
from watcher.daemon.evaluate import build_detectors
from watcher.daemon.ledger import Ledger
from watcher.daemon.pipeline import WatchedRun
from watcher.telemetry._dialect import Dialect
from watcher.telemetry._fleet import NodeNames, selector
from watcher.telemetry.prometheus import PrometheusSection, dialect_of

OWN_STEP = "runwatch_run_step"  # what our own daemon exports of a run


@dataclass(frozen=True, slots=True)
class Plan:
    """`queries`: what to fetch; `counters`: run -> {field: key in `queries`}."""

    section: PrometheusSection
    dialect: Dialect
    node_label: str
    runs: Sequence[WatchedRun]
    nodes: Sequence[str]
    queries: Mapping[str, str]
    counters: Mapping[str, Mapping[str, str]]


def section_of(config: DaemonConfig, url: str, options: Mapping[str, Any]) -> PrometheusSection:
    """The config's own section about an engine, with `url` and the options in its place. Raises ValidationError."""
    items = [section for kind, section in map(chosen, config.daemon.telemetry) if kind == "prometheus"]
    written = {name: getattr(items[0], name) for name in items[0].model_fields_set} if items else {}
    slow = {"timeout_seconds": 60.0}  # history takes longer than the last minutes
    return PrometheusSection.model_validate({**slow, **written, **options, "url": url})


def plan(
    config: DaemonConfig, section: PrometheusSection, runs: Sequence[RunSection], interval: float, step: str | None
) -> Plan:
    """`interval`: between two evaluations; `step`: the counter of a run whose config names none."""
    dialect = dialect_of(section)
    label = section.node_label or dialect.node
    nodes = list(dict.fromkeys(node for run in runs for node in run.nodes))
    matchers = (section.selector, NodeNames(nodes).matcher(label))
    queries = {metric: selector(metric, *matchers) for metric in dialect.metrics()}
    counters = {}
    for run in runs:
        wanted = _counter(run, step)
        fields = {name: f"{run.name} {name}" for name in wanted}
        queries |= {fields[name]: text for name, text in wanted.items()}
        counters[run.name] = fields
    slower = config.model_copy(update={"daemon": config.daemon.model_copy(update={"interval_seconds": interval})})
    watched = []
    for run in runs:
        configs, modes = settled(config.detectors, run.detectors)
        fold = run_fold(run, slower, Ledger(), None)
        watched.append(WatchedRun(fold, build_detectors(load_plugins(), configs, modes)))
    return Plan(section, dialect, label, watched, nodes, queries, counters)


def _counter(run: RunSection, step: str | None) -> dict[str, str]:
    """field -> selector: what the run's config says, what was asked for, or what our daemon has exported."""
    if run.progress is not None:
        _, section = chosen(run.progress)
        wanted: dict[str, str] = section.wanted()
        return wanted
    if step is not None:
        return {"step": step}
    name = run.name.replace("\\", "\\\\").replace('"', '\\"')
    return {"step": f'{OWN_STEP}{{run="{name}"}}'}
