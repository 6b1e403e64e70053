"""NeMo 2: `Training epoch 0, iteration 12/99 | lr: 0.0003 | global_step: 12 | reduced_train_loss: 11.03 | ...`.

`iteration i/n` is 0-based, n is the last index, and i restarts with every validation interval: `global_step` counts.
"""

from __future__ import annotations

import re

from watcher.events import LogEvent
from watcher.formats._api import Format
from watcher.formats._numbers import whole
from watcher.formats._pairs import pairs
from watcher.formats._phases import phase_table

_HEAD = re.compile(r"Training epoch (\d{1,7}), iteration (\d{1,12})/(\d{1,12}) \|")
_EVALUATION = re.compile(r"^Validation: iteration (\d{1,12})/(\d{1,12})")
_phases = phase_table(
    ("checkpoint", "start", r"Scheduled async checkpoint save for"),
    ("checkpoint", "end", r"Async checkpoint save for step \d+ .{0,1000}finalized successfully|"
                          r"Successfully saved checkpoint from iteration"),
)  # fmt: skip


class NemoReader:
    def __init__(self) -> None:
        self._training = self._evaluating = False

    def feed(self, line: str, at: int) -> list[LogEvent]:
        head = _HEAD.search(line)
        if head:
            return self._record(head, line, at)
        evaluation = _EVALUATION.search(line)
        if evaluation is None:
            return _phases(line, at)
        counter, total = float(evaluation[1]), float(evaluation[2])
        out = [LogEvent(event="progress", line=at, counter=counter, counter_total=total)]
        if not self._evaluating:
            out.append(LogEvent(event="phase", line=at, phase="evaluation", edge="start"))
        self._evaluating = True
        return out

    def flush(self) -> list[LogEvent]:
        return []

    def _record(self, head: re.Match[str], line: str, at: int) -> list[LogEvent]:
        out = []
        if not self._training:
            out.append(LogEvent(event="phase", line=at, phase="training", edge="start"))
        if self._evaluating:
            out.append(LogEvent(event="phase", line=at, phase="evaluation", edge="end"))
        self._training, self._evaluating = True, False
        found = pairs(line[head.end() :])
        step = whole(found.get("global step"))
        event = LogEvent(
            event="step", line=at, step=int(head[2]) if step is None else step, total_steps=int(head[3]) + 1,
            epoch=float(head[1]), loss=found.get("reduced train loss", found.get("train loss")),
            learning_rate=found.get("lr"), grad_norm=found.get("grad norm"),
            step_seconds=found.get("train step timing in s"), batch_size=whole(found.get("global batch size")),
            tflops_per_gpu=found.get("tflops per sec per gpu", found.get("tflops per gpu")),
        )  # fmt: skip
        return [*out, event]


FORMAT = Format("nemo", NemoReader, hints=("training epoch", "validation: iteration", "checkpoint"), priority=60)
