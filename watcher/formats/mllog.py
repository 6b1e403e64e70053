"""MLPerf logging: `:::MLLOG {json}` (and the older `:::MLL time key: {json}`) with exact phases."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Literal

from watcher.events import LogEvent, PhaseName
from watcher.formats._api import Format
from watcher.formats._numbers import number, whole

_OLD = re.compile(r":::MLL (\d{9,11}\.\d{1,9}) (\w{1,60}): (\{.*)")
_PHASES: dict[str, tuple[PhaseName, Literal["start", "end"]]] = {
    "run_start": ("training", "start"), "run_stop": ("finished", "start"), "eval_start": ("evaluation", "start"),
    "eval_stop": ("evaluation", "end"),
}  # fmt: skip
_LOSSES = ("train_loss", "reduced_train_loss", "loss", "lm_loss")


class MllogReader:
    def __init__(self) -> None:
        self._training = False

    def feed(self, line: str, at: int) -> list[LogEvent]:
        return list(self._parse(line, at))

    def flush(self) -> list[LogEvent]:
        return []

    def _parse(self, line: str, at: int) -> Iterable[LogEvent]:
        key, value, metadata, logged_at = _entry(line)
        if key in _PHASES:
            phase, edge = _PHASES[key]
            self._training = self._training or key == "run_start"
            yield LogEvent(event="phase", line=at, phase=phase, edge=edge, logged_at=logged_at)
        elif key == "tracked_stats" and isinstance(value, dict):
            yield from _stats(value, metadata, at, logged_at)
        elif key in ("block_start", "block_stop", "epoch_start", "epoch_stop", "eval_accuracy"):
            if key.endswith("_start") and not self._training:
                self._training = True
                yield LogEvent(event="phase", line=at, phase="training", edge="start", logged_at=logged_at)
            counter = number(metadata.get("step", metadata.get("samples_count", metadata.get("epoch_num"))))
            if counter is not None:
                yield LogEvent(event="progress", line=at, counter=counter, logged_at=logged_at)


def _stats(value: dict[str, Any], metadata: dict[str, Any], at: int, logged_at: float | None) -> Iterable[LogEvent]:
    loss = next((number(value[name]) for name in _LOSSES if name in value), None)
    step = whole(metadata.get("step"))
    if loss is not None:
        yield LogEvent(
            event="step", line=at, step=step, loss=loss, step_seconds=number(value.get("train_step_time")),
            learning_rate=number(metadata.get("lr", value.get("lr"))), logged_at=logged_at,
        )  # fmt: skip
    elif step is not None and any("valid" in name or "eval" in name for name in value):
        yield LogEvent(event="progress", line=at, counter=float(step), logged_at=logged_at)


def _entry(line: str) -> tuple[str, Any, dict[str, Any], float | None]:
    """Key, value, metadata and time; an empty key where the line is none."""
    if ":::MLLOG {" in line:
        item = _json(line[line.index(":::MLLOG {") + 9 :])
        time_ms = number(item.get("time_ms"))
        metadata = item.get("metadata")
        logged_at = None if time_ms is None else time_ms / 1000.0
        return str(item.get("key", "")), item.get("value"), metadata if isinstance(metadata, dict) else {}, logged_at
    old = _OLD.search(line)
    if old is None:
        return "", None, {}, None
    item = _json(old[3])
    metadata = item.get("metadata")
    return old[2], item.get("value"), metadata if isinstance(metadata, dict) else {}, float(old[1])


def _json(text: str) -> dict[str, Any]:
    try:
        item, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return {}
    return item if isinstance(item, dict) else {}


FORMAT = Format("mllog", MllogReader, hints=(":::mll",), priority=90)
