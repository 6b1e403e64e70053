"""One file = one detector. Our own are found by a scan of this folder, other people's by the entry point group
`runwatch.detectors`. A broken one stops start-up and is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import detectors
from detectors import plugins

if TYPE_CHECKING:  # the agent uses the scan alone, and should not weigh as if it judged
    from detectors.frame import Frame
    from detectors.verdict import Verdict

NOT_PLUGINS = frozenset({"frame", "telemetry", "verdict", "registry", "plugins"})


class Detector(Protocol):
    def check(self, frame: Frame) -> Verdict: ...


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
    return plugins.load(detectors, Plugin, "detector", skip=NOT_PLUGINS)
