"""LitGPT: `Epoch 1 | iter 2 step 1 | loss train: 1.660, val: n/a | iter time: 548.72 ms (step)`: iter = micro batch."""

from __future__ import annotations

import re
from collections.abc import Iterable

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._numbers import NUMBER, number, seconds
from watcher.formats._phases import phase_table

_LINE = re.compile(
    rf"Epoch (\d{{1,7}})\s?\| iter (\d{{1,12}}) step (\d{{1,12}})\s?\| loss train: ({NUMBER}), val: \S{{1,40}} \| "
    rf"iter time: ({NUMBER}) (ms|s)"
)
_phases = phase_table(
    ("evaluation", "start", r"^Validating \.\.\."),
    ("evaluation", "end", r"^iter \d+: val loss"),
    ("training", "end", r"^Training time: [\d.]+s|^\| Training time "),
    ("checkpoint", "start", r"^Saving (?:LoRA |adapter )?(?:weights|checkpoint) to\b|^Saving (?:adapter|LoRA) weights"),
    ("checkpoint", "end", r"^Saved merged weights to"),
)


def _parse(line: str, at: int) -> Iterable[LogEvent]:
    found = _LINE.search(line)
    if found is None:
        yield from _phases(line, at)
        return
    yield LogEvent(
        event="step", line=at, step=int(found[2]), epoch=float(found[1]), loss=number(found[4]),
        step_seconds=seconds(found[5], found[6]),
    )  # fmt: skip


FORMAT = Format(
    "litgpt",
    lambda: Stateless(_parse),
    hints=("loss train:", "validating", "val loss", "training time", "saving ", "saved merged"),
    priority=40,
)
