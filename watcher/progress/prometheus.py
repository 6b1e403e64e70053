"""Progress from a Prometheus-compatible API, with the times at which its samples were taken.

A plain instant query shows a dead job's last value for five more minutes, with the time of the question on it. A range
selector gives the samples themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from watcher.progress._api import ProgressPlugin
from watcher.progress._sections import EngineProgressSection

if TYPE_CHECKING:
    from watcher.progress._reader import Points


def build(section: EngineProgressSection) -> Points:
    from watcher.progress._engine import EnginePoints  # brings the HTTP client

    return EnginePoints(section)


PLUGIN = ProgressPlugin("prometheus", EngineProgressSection, build)
