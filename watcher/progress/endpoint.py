"""Progress from the job's own /metrics. A job that does not answer is silent, as one that writes no line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watcher.progress._api import ProgressPlugin
from watcher.progress._sections import EndpointSection

if TYPE_CHECKING:
    from watcher.progress._reader import Points


def build(section: EndpointSection) -> Points:
    from watcher.progress._scrape import EndpointPoints  # brings the HTTP client

    return EndpointPoints(section)


PLUGIN = ProgressPlugin("endpoint", EndpointSection, build)
