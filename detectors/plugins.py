"""One file = one plug-in. Our own are found by a scan of their folder, other people's by a group of entry points; a
broken one stops start-up and is named."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection
from importlib.metadata import entry_points
from types import ModuleType
from typing import Protocol, TypeVar


class PluginError(Exception):
    """A plug-in that cannot be used; the text names it."""


class Named(Protocol):
    @property
    def name(self) -> str: ...


P = TypeVar("P", bound=Named)


def load(
    folder: ModuleType, kind: type[P], what: str, attribute: str = "PLUGIN", skip: Collection[str] = ()
) -> dict[str, P]:
    """All of a kind by name, sorted; entry points are of the group `runwatch.FOLDER`. Raises PluginError.

    `attribute`: what each module holds, a `kind` whose name is the module's. `what`: what it is called in messages.
    """
    found: dict[str, P] = {}
    places = [
        (module.name, f"{folder.__name__}.{module.name}")
        for module in pkgutil.iter_modules(folder.__path__)
        if not module.name.startswith("_") and module.name not in skip
    ]
    group = f"runwatch.{folder.__name__.rpartition('.')[2]}"
    places += [(point.name, point.value) for point in entry_points(group=group)]
    for name, path in places:
        try:
            plugin = getattr(importlib.import_module(path), attribute)
        except Exception as error:
            raise PluginError(f"{what} {name} ({path}) cannot be loaded: {error!r}") from error
        if not isinstance(plugin, kind) or plugin.name != name:
            raise PluginError(f"{what} {name} ({path}): {attribute} must be a {kind.__name__} whose name is {name!r}")
        if name in found:
            raise PluginError(f"{what} {name} ({path}) takes a name that exists already")
        found[name] = plugin
    return dict(sorted(found.items()))
