"""torchvision's reference loops (also DETR, DeiT, MAE, ConvNeXt): `Epoch: [3]  [4280/4571]  eta: 0:00:30 lr: 0.02 ...`.

The position is 0-based within the epoch. `Test:` lines are an evaluation, which nothing else announces.
"""

from __future__ import annotations

import re

from watcher.events import LogEvent
from watcher.formats._api import Format
from watcher.formats._numbers import NUMBER, number
from watcher.formats._phases import phase_table

_HEAD = re.compile(
    r"(?:^|\s)(?:(?:Train )?Epoch: \[(\d{1,7})\]|(Test|Val|Eval|Evaluation|Validation):)\s{1,4}"
    r"\[\s{0,9}(\d{1,12})/(\d{1,12})\]\s{1,4}eta: "
)
_LOSS = re.compile(rf"\sloss: ({NUMBER})")
_TIME = re.compile(rf"\stime: ({NUMBER})")
_RATE = re.compile(rf"\slr: ({NUMBER})")
_SAMPLES = re.compile(rf"\simg/s: ({NUMBER})")
_phases = phase_table(
    ("evaluation", "end", r"^(?:Test|Val|Eval|Evaluation|Validation): Total time"),
    ("finished", "start", r"^Training time \d"),
)


class TorchvisionReader:
    def __init__(self) -> None:
        self._evaluating = False

    def feed(self, line: str, at: int) -> list[LogEvent]:
        head = _HEAD.search(line)
        if head is None:
            found = _phases(line, at)
            self._evaluating = self._evaluating and not found
            return found
        done, length = int(head[3]), int(head[4])
        if head[2]:
            out = [LogEvent(event="progress", line=at, counter=float(done), counter_total=float(length))]
            if not self._evaluating:
                out.append(LogEvent(event="phase", line=at, phase="evaluation", edge="start"))
            self._evaluating = True
            return out
        self._evaluating = False
        epoch = int(head[1])
        loss, taken, rate, samples = (p.search(line) for p in (_LOSS, _TIME, _RATE, _SAMPLES))
        return [
            LogEvent(
                event="step", line=at, step=epoch * length + done, epoch=float(epoch),
                loss=number(loss[1]) if loss else None, step_seconds=number(taken[1]) if taken else None,
                learning_rate=number(rate[1]) if rate else None,
                samples_per_second=number(samples[1]) if samples else None,
            )
        ]  # fmt: skip

    def flush(self) -> list[LogEvent]:
        return []


FORMAT = Format("torchvision", TorchvisionReader, hints=("eta: ", "total time", "training time"), priority=45)
