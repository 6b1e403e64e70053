"""detectron2 and maskrcnn-benchmark: `eta: 0:09:23  iter: 19  total_loss: 4.911  ...  time: 0.6119  ...  lr: 5e-06`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._numbers import NUMBER, number
from watcher.formats._phases import phase_table

_HEAD = re.compile(
    r"eta: \S{1,20}(?: days?, \S{1,20})?\s{1,4}iter: (\d{1,12})\s|^\s?iter: (\d{1,12})\s{1,4}total_loss: "
)
_LOSS = re.compile(rf"\s(?:total_)?loss: ({NUMBER})")
_TIME = re.compile(rf"\stime: ({NUMBER})")
_RATE = re.compile(rf"\slr: ({NUMBER})")
_INFERENCE = re.compile(r"Inference done (\d{1,12})/(\d{1,12})\.")
_phases = phase_table(
    ("training", "start", r"Starting training from iteration|maskrcnn_benchmark\.trainer INFO: Start training"),
    ("evaluation", "start", r"Start inference on|Start evaluation on"),
    ("evaluation", "end", r"Total inference time:"),
    ("finished", "start", r"Total training time:"),
    ("checkpoint", "start", r"(?:fvcore\.common\.checkpoint|utils\.checkpoint).{0,20}Saving checkpoint to"),
)


def _parse(line: str, at: int) -> Iterable[LogEvent]:
    head = _HEAD.search(line)
    if head is None:
        inference = _INFERENCE.search(line)
        if inference:
            yield LogEvent(
                event="progress", line=at, counter=float(inference[1]), counter_total=float(inference[2])
            )  # fmt: skip
        yield from _phases(line, at)
        return
    loss, taken, rate = _LOSS.search(line), _TIME.search(line), _RATE.search(line)
    yield LogEvent(
        event="step", line=at, step=int(head[1] or head[2]), loss=number(loss[1]) if loss else None,
        step_seconds=number(taken[1]) if taken else None, learning_rate=number(rate[1]) if rate else None,
    )  # fmt: skip


FORMAT = Format(
    "detectron2",
    lambda: Stateless(_parse),
    hints=("iter: ", "starting training from", "start training", "start inference", "start evaluation",
           "total inference time", "total training time", "saving checkpoint", "inference done"),
    priority=45,
)  # fmt: skip
