"""What a channel is to the rest of the program: one file = one channel, with its own config section."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

from pydantic import BaseModel, ConfigDict

import alerts.channels
from alerts.policy import ChannelTraits
from alerts.worker import Channel
from detectors.registry import PluginError


class ChannelSection(BaseModel):
    """Base of every channel's own section."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


@dataclass(frozen=True, slots=True)
class ChannelPlugin:
    """`build(config)` makes the channel; it touches nothing outside before the first `send`."""

    name: str
    config: type[ChannelSection]
    build: Callable[[Any], Channel]
    traits: ChannelTraits = field(default_factory=ChannelTraits)


def load_channels() -> dict[str, ChannelPlugin]:
    """All kinds of channels by name. Raises PluginError with the name of a broken one."""
    found: dict[str, ChannelPlugin] = {}
    places = [
        (module.name, f"alerts.channels.{module.name}")
        for module in pkgutil.iter_modules(alerts.channels.__path__)
        if not module.name.startswith("_")
    ]
    places += [(point.name, point.value) for point in entry_points(group="runwatch.channels")]
    for name, path in places:
        try:
            plugin = importlib.import_module(path).PLUGIN
        except Exception as error:
            raise PluginError(f"channel {name} ({path}) cannot be loaded: {error!r}") from error
        if not isinstance(plugin, ChannelPlugin) or plugin.name != name or name in found:
            raise PluginError(f"channel {name} ({path}): PLUGIN must be a ChannelPlugin of that name, once")
        found[name] = plugin
    return dict(sorted(found.items()))
