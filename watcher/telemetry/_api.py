"""What a way to telemetry is to the rest of the program: one file = one plug-in, with its own config section."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, create_model

import watcher.telemetry
from detectors import plugins
from watcher.clock import Clock
from watcher.telemetry._dialect import Dialect
from watcher.telemetry._sections import ExporterSection

if TYPE_CHECKING:
    from watcher.daemon.answer import AnswerSource

NodesNow = Callable[[], Sequence[str]]  # the nodes of all runs at this moment
Port = Annotated[int, Field(ge=1, le=65_535)]


@dataclass(frozen=True, slots=True)
class TelemetryPlugin:
    """`build(section, nodes, clock)` makes the source; it touches nothing outside before it is entered. `dialect`:
    its words, where an engine may have scraped it too. `notes(section)`: what it cannot tell, for `check-config`."""

    name: str
    config: type[BaseModel]
    build: Callable[[Any, NodesNow, Clock], AnswerSource]
    notes: Callable[[Any], Sequence[str]] = lambda section: ()
    dialect: Dialect | None = None


def exporter(name: str, dialect: Dialect, port: int) -> TelemetryPlugin:
    """A plug-in for an exporter that listens on `port` of each node."""
    section = create_model(f"{name}_section", __base__=ExporterSection, port=(Port, port))

    def build(section: ExporterSection, nodes: NodesNow, clock: Clock) -> AnswerSource:
        from watcher.telemetry._scrape import Scraper  # brings the HTTP client

        return Scraper(name, dialect, section, nodes, clock)

    def notes(section: ExporterSection) -> Sequence[str]:
        return notes_of(dialect, section.power_limit_watts)

    return TelemetryPlugin(name, section, build, notes, dialect)


def notes_of(dialect: Dialect, power_limit_watts: float | None) -> Sequence[str]:
    """What the exporter cannot tell, less what the config says in its place."""
    return [note for note in dialect.notes if power_limit_watts is None or "power limit" not in note]


@cache
def load_telemetry() -> dict[str, TelemetryPlugin]:
    """All kinds by name. Raises PluginError with the name of a broken one."""
    return plugins.load(watcher.telemetry, TelemetryPlugin, "telemetry")
