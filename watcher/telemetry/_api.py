"""What a way to telemetry is to the rest of the program: one file = one plug-in, with its own config section."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, create_model

import watcher.telemetry
from detectors.registry import PluginError
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
    found: dict[str, TelemetryPlugin] = {}
    places = [
        (module.name, f"watcher.telemetry.{module.name}")
        for module in pkgutil.iter_modules(watcher.telemetry.__path__)
        if not module.name.startswith("_")
    ]
    places += [(point.name, point.value) for point in entry_points(group="runwatch.telemetry")]
    for name, path in places:
        try:
            plugin = importlib.import_module(path).PLUGIN
        except Exception as error:
            raise PluginError(f"telemetry {name} ({path}) cannot be loaded: {error!r}") from error
        if not isinstance(plugin, TelemetryPlugin) or plugin.name != name or name in found:
            raise PluginError(f"telemetry {name} ({path}): PLUGIN must be a TelemetryPlugin of that name, once")
        found[name] = plugin
    return dict(sorted(found.items()))
