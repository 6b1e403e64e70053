"""One file = one detector. Our own are found by a scan of this folder, other people's by the entry point group
`runwatch.detectors`. A broken one stops start-up and is named."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol

import detectors

if TYPE_CHECKING:  # the agent uses the scan alone, and should not weigh as if it judged
    from detectors.frame import Frame
    from detectors.verdict import Verdict

NOT_PLUGINS = frozenset({"frame", "telemetry", "verdict", "registry"})


class Detector(Protocol):
    def check(self, frame: Frame) -> Verdict: ...


class PluginError(Exception):
    """A plug-in that cannot be used; the text names it."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """`config`: a frozen dataclass of defaults, units in its field names. `build(config)` makes the detector."""

    name: str
    config: type[Any]
    build: Callable[[Any], Detector]
    family: str = ""

    @property
    def group(self) -> str:
        return self.family or self.name


def load_plugins() -> dict[str, Plugin]:
    """All detectors by name, sorted. Raises PluginError."""
    found: dict[str, Plugin] = {}
    for module in pkgutil.iter_modules(detectors.__path__):
        if module.name.startswith("_") or module.name in NOT_PLUGINS:
            continue
        found[module.name] = _plugin_of(f"detectors.{module.name}", module.name)
    for point in entry_points(group="runwatch.detectors"):
        if point.name in found:
            raise PluginError(f"detector {point.name}: entry point {point.value} takes a name that exists already")
        found[point.name] = _plugin_of(point.value, point.name)
    return dict(sorted(found.items()))


def _plugin_of(path: str, name: str) -> Plugin:
    try:
        plugin = importlib.import_module(path).PLUGIN
    except Exception as error:
        raise PluginError(f"detector {name} ({path}) cannot be loaded: {error!r}") from error
    if not isinstance(plugin, Plugin) or plugin.name != name:
        raise PluginError(f"detector {name} ({path}): PLUGIN must be a Plugin whose name is {name!r}")
    return plugin
