"""MXNet: `Node[0] Epoch[0] Batch [0-20]   Speed: 10356.65 samples/sec   accuracy=0.01`. Batches restart each epoch."""

from __future__ import annotations

import re

from watcher.events import LogEvent
from watcher.formats._api import Format
from watcher.formats._numbers import NUMBER, number

_LINE = re.compile(rf"Epoch\[(\d{{1,7}})\] Batch \[(?:\d{{1,12}}-)?(\d{{1,12}})\]\s{{1,9}}Speed: ({NUMBER}) samples/s")
_LOSS = re.compile(rf"\b(?:loss|cross-entropy)=({NUMBER})")


class MxnetReader:
    def __init__(self) -> None:
        self._epoch: int | None = None
        self._done = self._last = 0  # batches of the epochs before, and in this one

    def feed(self, line: str, at: int) -> list[LogEvent]:
        found = _LINE.search(line)
        if found is None:
            return []
        epoch, batch = int(found[1]), int(found[2])
        if self._epoch is not None and epoch > self._epoch:
            self._done += self._last
        elif self._epoch is not None and epoch < self._epoch:
            self._done = 0
        self._epoch, self._last = epoch, batch
        loss = _LOSS.search(line)
        return [
            LogEvent(
                event="step", line=at, step=self._done + batch, epoch=float(epoch), samples_per_second=number(found[3]),
                loss=number(loss[1]) if loss else None,
            )
        ]  # fmt: skip

    def flush(self) -> list[LogEvent]:
        return []


FORMAT = Format("mxnet", MxnetReader, hints=("samples/sec",), priority=40)
