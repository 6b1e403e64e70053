"""A Prometheus-compatible API that has scraped the fleet: one query a metric for all nodes, no agent on any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import field_validator

from watcher.clock import Clock
from watcher.telemetry._api import NodesNow, TelemetryPlugin, load_telemetry, notes_of
from watcher.telemetry._dialect import Dialect
from watcher.telemetry._sections import EngineSection

if TYPE_CHECKING:
    from watcher.daemon.answer import AnswerSource


def dialects() -> dict[str, Dialect]:
    """Whose words an engine may hold."""
    return {name: plugin.dialect for name, plugin in load_telemetry().items() if plugin.dialect is not None}


class PrometheusSection(EngineSection):
    @field_validator("metrics")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in (known := dialects()):
            raise ValueError(f"no exporter is called {value!r}; known are {', '.join(known)}")
        return value


def dialect_of(section: EngineSection) -> Dialect:
    """The words of its exporter, with the labels as they were renamed on the way."""
    words = dialects()[section.metrics]
    labels = section.labels
    return replace(
        words,
        uuid=labels.get("uuid", words.uuid),
        index=labels.get("index", words.index),
        model=labels.get("model", words.model),
        bus=labels.get("bus", words.bus),
    )


def build(section: PrometheusSection, nodes: NodesNow, clock: Clock) -> AnswerSource:
    from watcher.telemetry._engine import Engine  # brings the HTTP client

    return Engine("prometheus", dialect_of(section), section, nodes, clock)


def notes(section: PrometheusSection) -> Sequence[str]:
    return notes_of(dialects()[section.metrics], section.power_limit_watts)


PLUGIN = TelemetryPlugin("prometheus", PrometheusSection, build, notes)
