"""Keras: `Epoch 3/20`, then `10/100 ━━━━ 5s 51ms/step - loss: 0.51` (older: `15000/15000 [====>..] - 1s`).

A bar without an `Epoch` line before it is an evaluation or a prediction.
"""

from __future__ import annotations

import re

from watcher.events import LogEvent
from watcher.formats._api import Format
from watcher.formats._numbers import NUMBER, number, seconds
from watcher.formats._phases import phase_table

_EPOCH = re.compile(r"^Epoch (\d{1,7})/(\d{1,7})\s*$")
_BAR = re.compile(
    r"(?:^|\s)(\d{1,12})/(\d{1,12})\s(?:\[[=>.]{5,60}\]|[━╸╺ ]{5,80}|)\s?(?=(?:-\s)?(?:ETA|\d))(.{0,2000})"
)
_PER_STEP = re.compile(rf"\b({NUMBER})(us|ms|s)/(?:step|epoch|sample)")
_METRIC = re.compile(rf"(?:^|\s-\s|\s)(loss|val_loss|learning_rate|lr): ({NUMBER})")
_phases = phase_table(("training", "start", r"^Train on \d+ samples"))


class KerasReader:
    def __init__(self) -> None:
        self._epoch: tuple[int, int] | None = None  # the open one and how many there are
        self._evaluating = False
        self._ended: tuple[str, str] | None = None  # the last bar's end state, drawn again without news

    def feed(self, line: str, at: int) -> list[LogEvent]:
        epoch = _EPOCH.match(line)
        if epoch:
            self._epoch, self._evaluating = (int(epoch[1]), int(epoch[2])), False
            return [LogEvent(event="phase", line=at, phase="training", edge="start")] if epoch[1] == "1" else []
        bar = _BAR.search(line)
        if bar is None:
            return _phases(line, at)
        metrics = {name: number(value) for name, value in _METRIC.findall(bar[3])}
        if self._epoch is None:
            return self._evaluation(bar, at)
        if "loss" not in metrics:
            return [LogEvent(event="progress", line=at, counter=float(bar[1]), counter_total=float(bar[2]))]
        return self._record(bar, metrics, at)

    def flush(self) -> list[LogEvent]:
        return []

    def _record(self, bar: re.Match[str], metrics: dict[str, float | None], at: int) -> list[LogEvent]:
        epoch, epochs = self._epoch or (1, 1)
        done, length = int(bar[1]), int(bar[2])
        taken = _PER_STEP.search(bar[3])
        out = [
            LogEvent(
                event="step", line=at, step=(epoch - 1) * length + done, total_steps=epochs * length,
                epoch=float(epoch), loss=metrics["loss"], learning_rate=metrics.get("learning_rate", metrics.get("lr")),
                step_seconds=seconds(taken[1], taken[2]) if taken and done >= 1 else None,
            )
        ]  # fmt: skip
        if "val_loss" in metrics:
            out.append(LogEvent(event="phase", line=at, phase="evaluation", edge="end"))
        if done >= length and "ETA" not in bar[3]:
            self._epoch = None
        return out

    def _evaluation(self, bar: re.Match[str], at: int) -> list[LogEvent]:
        done, length = float(bar[1]), float(bar[2])
        out = [LogEvent(event="progress", line=at, counter=done, counter_total=length)]
        if not self._evaluating:
            out.append(LogEvent(event="phase", line=at, phase="evaluation", edge="start"))
        self._evaluating = done < length
        if done >= length:
            out.append(LogEvent(event="phase", line=at, phase="evaluation", edge="end"))
        return out


FORMAT = Format("keras", KerasReader, hints=("epoch ", "eta:", "/step", "- loss", "==", "train on"), priority=30)
