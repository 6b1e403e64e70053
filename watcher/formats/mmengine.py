"""mmengine and the older mmcv: `Epoch(train) [1][10/1563]  lr: 1.0000e-03  eta: 0:18:23  time: 0.1414 ... loss: 5.34`.

Iterations run per epoch (`[epoch][i/n]`) or over the whole run (`Iter(train) [ 10/720]`). An evaluation shows only by
its own lines.
"""

from __future__ import annotations

import re

from watcher.events import LogEvent
from watcher.formats._api import Format
from watcher.formats._numbers import NUMBER, number
from watcher.formats._phases import phase_table

_EPOCH = re.compile(
    r"Epoch\s?(?:\((train|val|test)\))?\s{1,4}\[\s{0,6}(\d{1,7})\]\[\s{0,9}(\d{1,12})(?:/(\d{1,12}))?\]"
)
_ITER = re.compile(r"Iter\s?(?:\((train|val|test)\))?\s{1,4}\[\s{0,9}(\d{1,12})(?:/(\d{1,12}))?\]")
_FIELD = re.compile(rf"\b(loss|time|lr|base_lr|grad_norm|total_loss): ({NUMBER})")
_phases = phase_table(("checkpoint", "start", r"Saving checkpoint at \d+ (?:epochs|iterations)"))


class MmengineReader:
    def __init__(self) -> None:
        self._evaluating = False

    def feed(self, line: str, at: int) -> list[LogEvent]:
        epoch = _EPOCH.search(line)
        if epoch:
            length = int(epoch[4]) if epoch[4] else None
            if epoch[1] in ("val", "test") or length is None:
                return self._evaluation(at, int(epoch[3]), length)
            number_of = int(epoch[2])
            return self._record(line, at, int(epoch[3]) + (number_of - 1) * length, None, float(number_of))
        found = _ITER.search(line)
        if found is None:
            return _phases(line, at)
        total = int(found[3]) if found[3] else None
        if found[1] in ("val", "test") or total is None:
            return self._evaluation(at, int(found[2]), total)
        return self._record(line, at, int(found[2]), total, None)

    def flush(self) -> list[LogEvent]:
        return []

    def _record(self, line: str, at: int, step: int, total: int | None, epoch: float | None) -> list[LogEvent]:
        self._evaluating = False
        found: dict[str, float | None] = {}
        for name, value in _FIELD.findall(line):
            found.setdefault(name, number(value))
        return [
            LogEvent(
                event="step", line=at, step=step, total_steps=total, epoch=epoch, step_seconds=found.get("time"),
                loss=found.get("loss", found.get("total_loss")), grad_norm=found.get("grad_norm"),
                learning_rate=found.get("lr", found.get("base_lr")),
            )
        ]  # fmt: skip

    def _evaluation(self, at: int, done: int, length: int | None) -> list[LogEvent]:
        out = [
            LogEvent(
                event="progress", line=at, counter=float(done), counter_total=None if length is None else float(length)
            )
        ]
        over = length is None or done >= length
        if not self._evaluating and not (over and length is None):
            out.append(LogEvent(event="phase", line=at, phase="evaluation", edge="start"))
        self._evaluating = not over
        if over:
            out.append(LogEvent(event="phase", line=at, phase="evaluation", edge="end"))
        return out


FORMAT = Format(
    "mmengine", MmengineReader, hints=("epoch(", "epoch [", "iter(", "iter [", "saving checkpoint at"), priority=45
)
