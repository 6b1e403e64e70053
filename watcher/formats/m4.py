"""m4 (IDEFICS): `iteration:  2200/500000   0% | elapsed time: 10:38:00 | per_token_loss: 3.3 | lr: 9.9E-06 | ...`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._numbers import NUMBER, number
from watcher.formats._phases import phase_table

_LINE = re.compile(r"^iteration:\s{1,9}(\d{1,12})/(\d{1,12})\s{1,9}\d{1,3}% \| elapsed time:")
_FIELD = re.compile(rf"\| ([a-z_/]{{1,60}}): ({NUMBER})")
_phases = phase_table(
    ("startup", "start", r"^\*\* The job is running with the following options"),
    ("training", "start", r"^\*\* Starting training \*\*"),
    ("checkpoint", "start", r"^\*\* Starting to save checkpoint"),
    ("checkpoint", "end", r"^\*\* Checkpoint saved"),
    ("finished", "start", r"^\*\* The job was preempted by the scheduler: exiting"),
)


def _parse(line: str, at: int) -> Iterable[LogEvent]:
    found = _LINE.search(line)
    if found is None:
        yield from _phases(line, at)
        return
    fields = dict(_FIELD.findall(line[:2000]))
    yield LogEvent(
        event="step",
        line=at,
        step=int(found[1]),
        total_steps=int(found[2]),
        loss=number(fields.get("per_token_loss")),
        learning_rate=number(fields.get("lr")),
        step_seconds=number(fields.get("fwd_bwd_time_no_acc")),
        tflops_per_gpu=number(fields.get("tflops")),
    )


FORMAT = Format("m4", lambda: Stateless(_parse), hints=("iteration:", "** "), priority=60)
