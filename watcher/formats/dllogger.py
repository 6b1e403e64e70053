"""NVIDIA's DLLogger: `DLL 2025-10-03 22:15:58.95 - Iteration 3993 | iteration_time : 71.4 ms | train_loss : 0.835`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._numbers import NUMBER, number, seconds

_HEAD = re.compile(r"\bDLL \d{4}-\d\d-\d\d [\d:.]{8,15} - (.{1,4000})")
_STEP = re.compile(r"(?:Iteration|Step|iteration|step)[ :=]{1,3}(\d{1,12})(?:\s?/\s?(\d{1,12}))?")
_EPOCH = re.compile(r"Epoch[ :=]{1,3}(\d{1,7})")
_PAIR = re.compile(rf"(\w[\w/.]{{0,60}})\s?:\s({NUMBER})(?: (ms|s|samples/s|sequences/s|tokens/s))?")


def _parse(line: str, at: int) -> Iterable[LogEvent]:
    head = _HEAD.search(line)
    step = _STEP.search(head[1]) if head else None
    if head is None or step is None:
        return
    pairs = {m[1].lower(): (m[2], m[3]) for m in _PAIR.finditer(head[1])}

    def value(*names: str) -> float | None:
        return next((number(pairs[name][0]) for name in names if name in pairs), None)

    loss = value("train_loss", "step_loss", "average_loss", "loss", "train.loss", "total_loss")
    taken = next((seconds(*_timed(pairs[n])) for n in ("iteration_time", "step_time", "iter_time") if n in pairs), None)
    if loss is None and taken is None:
        return
    epoch = _EPOCH.search(head[1])
    yield LogEvent(
        event="step", line=at, step=int(step[1]), total_steps=int(step[2]) if step[2] else None, loss=loss,
        epoch=float(epoch[1]) if epoch else None, step_seconds=taken, learning_rate=value("learning_rate", "lr"),
        grad_norm=value("grad_norm"), samples_per_second=value("throughput_train", "train_samples/s", "items/s"),
    )  # fmt: skip


def _timed(pair: tuple[str, str | None]) -> tuple[str, str]:
    return pair[0], pair[1] or "s"


FORMAT = Format("dllogger", lambda: Stateless(_parse), hints=("dll 2",), priority=60)
