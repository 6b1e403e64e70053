"""The run to replay, with the detectors as a config (or a part of one) wants them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from detectors.registry import load_plugins
from watcher.daemon.evaluate import build_detectors
from watcher.daemon.fold import RunFold, RunSettings
from watcher.daemon.pipeline import WatchedRun


def watched_run(name: str, nodes: Sequence[str], config: Path | None, per_node: bool) -> WatchedRun:
    settings = RunSettings(name=name, nodes=tuple(nodes), logs_are_per_node=per_node)
    return WatchedRun(RunFold(settings), build_detectors(load_plugins()))
