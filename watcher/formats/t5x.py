"""t5x and other users of clu: `logging_writer.py:48] [1000] loss=3.2, learning_rate=0.1, timing/seqs_per_second=9`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._numbers import NUMBER, number
from watcher.formats._phases import phase_table

_HEAD = re.compile(r"logging_writer\.py:\d{1,6}\] \[(\d{1,12})\] (.{1,8000})")
_FIELD = re.compile(rf"(?:^|, )([\w/]{{1,80}})=({NUMBER})")
_LOSSES = ("loss", "train_loss", "train/loss", "loss_per_all_target_tokens")
_phases = phase_table(
    ("training", "start", r"BEGIN Train loop\.|Starting main loop over steps"),
    ("training", "end", r"END Train loop\."),
    ("evaluation", "start", r"Computing training evaluation metrics|Evaluating in train loop|BEGIN Eval"),
    ("evaluation", "end", r"END Eval"),
    ("checkpoint", "start", r"Saving checkpoint for step \d+"),
    ("checkpoint", "end", r"Saved checkpoint for step \d+|Saved checkpoint at \S"),
)


def _parse(line: str, at: int) -> Iterable[LogEvent]:
    head = _HEAD.search(line)
    if head is None:
        yield from _phases(line, at)
        return
    found = {name: number(value) for name, value in _FIELD.findall(head[2])}
    loss = next(
        (found[name] for name in ("loss", "train_loss", "train/loss", "loss_per_all_target_tokens") if name in found),
        None,
    )
    if loss is None:
        yield LogEvent(event="progress", line=at, counter=float(head[1]))
        return
    per_second = found.get("timing/steps_per_second", found.get("steps_per_sec"))
    yield LogEvent(
        event="step", line=at, step=int(head[1]), loss=loss, learning_rate=found.get("learning_rate"),
        samples_per_second=found.get("timing/seqs_per_second"), iterations_per_second=per_second,
    )  # fmt: skip


FORMAT = Format(
    "t5x",
    lambda: Stateless(_parse),
    hints=("logging_writer", "train loop", "main loop", "evaluation metrics", "checkpoint", "eval"),
    priority=45,
)
