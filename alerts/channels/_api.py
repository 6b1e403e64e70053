"""What a channel is to the rest of the program: one file = one channel, with its own config section."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict

import alerts.channels
from alerts.policy import ChannelTraits
from alerts.worker import Channel
from detectors import plugins


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
    return plugins.load(alerts.channels, ChannelPlugin, "channel")
