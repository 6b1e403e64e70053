"""The run to replay, with the detectors as a config (or a part of one) wants them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from alerts.incidents import Hysteresis
from detectors.registry import load_plugins
from watcher.config.daemon import DaemonConfig
from watcher.config.detectors import settled
from watcher.config.load import load
from watcher.daemon.evaluate import build_detectors
from watcher.daemon.fold import RunFold, RunSettings
from watcher.daemon.pipeline import WatchedRun


def watched_run(
    name: str, nodes: Sequence[str], config: Path | None, per_node: bool, interval_seconds: float = 10.0
) -> tuple[WatchedRun, Hysteresis]:
    """The run of that name in the config, or the only one there, or defaults; and when an incident opens and ends.

    Raises ConfigError.
    """
    loaded = load(config, DaemonConfig) if config is not None else DaemonConfig()
    named = [run for run in loaded.runs if run.name == name] or list(loaded.runs)
    section = named[0] if len(named) == 1 else None
    configs, modes = settled(loaded.detectors, section.detectors if section is not None else None)
    settings = RunSettings(
        name=name,
        nodes=tuple(nodes),
        interval_seconds=interval_seconds,
        expected_gpus=section.expected_gpus if section is not None else None,
        gpu_hour_price=section.gpu_hour_price if section is not None else None,
        currency=section.currency if section is not None else "USD",
        logs_are_per_node=per_node or (section is not None and section.logs_are_per_node),
    )
    return WatchedRun(RunFold(settings), build_detectors(load_plugins(), configs, modes)), loaded.paging.hysteresis()
