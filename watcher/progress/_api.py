"""What a way to progress is to the rest of the program: one file = one plug-in, with its own config section."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

import watcher.progress
from detectors import plugins

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
    return plugins.load(watcher.progress, ProgressPlugin, "progress")
