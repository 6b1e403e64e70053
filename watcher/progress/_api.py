"""What a way to progress is to the rest of the program: one file = one plug-in, with its own config section."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

import watcher.progress
from detectors.registry import PluginError

if TYPE_CHECKING:
    from watcher.progress._reader import Points


@dataclass(frozen=True, slots=True)
class ProgressPlugin:
    """`build(section)` touches nothing outside before it is entered."""

    name: str
    config: type[BaseModel]
    build: Callable[[Any], Points]


@cache
def load_progress() -> dict[str, ProgressPlugin]:
    """All kinds by name. Raises PluginError with the name of a broken one."""
    found: dict[str, ProgressPlugin] = {}
    places = [
        (module.name, f"watcher.progress.{module.name}")
        for module in pkgutil.iter_modules(watcher.progress.__path__)
        if not module.name.startswith("_")
    ]
    places += [(point.name, point.value) for point in entry_points(group="runwatch.progress")]
    for name, path in places:
        try:
            plugin = importlib.import_module(path).PLUGIN
        except Exception as error:
            raise PluginError(f"progress {name} ({path}) cannot be loaded: {error!r}") from error
        if not isinstance(plugin, ProgressPlugin) or plugin.name != name or name in found:
            raise PluginError(f"progress {name} ({path}): PLUGIN must be a ProgressPlugin of that name, once")
        found[name] = plugin
    return dict(sorted(found.items()))
