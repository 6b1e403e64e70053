"""MaxText: `completed step: 0, seconds: 44.923, TFLOP/s/device: 17.022, Tokens/s/device: 1094.129, loss: 12.038`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._numbers import NUMBER, number
from watcher.formats._phases import phase_table

_HEAD = re.compile(r"completed step: (\d{1,12}), (?=.{0,200}?(?:seconds|loss): )")
_FIELD = re.compile(rf"(?:^|, )(seconds|TFLOP/s/device|Tokens/s/device|loss|lm_loss|grad_norm|lr): ({NUMBER})")
_EVALUATION = re.compile(r"[Cc]ompleted eval step:? (\d{1,12})")
_phases = phase_table(
    ("startup", "start", r"Elastic attempt [2-9]\d* out of"),
    ("evaluation", "end", r"[Cc]ompleted eval after train step|eval metrics after step"),
    ("checkpoint", "end", r"Saved a checkpoint at step"),
)


def _parse(line: str, at: int) -> Iterable[LogEvent]:
    head = _HEAD.search(line)
    if head is None:
        evaluation = _EVALUATION.search(line)
        if evaluation:
            yield LogEvent(event="progress", line=at, counter=float(evaluation[1]))
        yield from _phases(line, at)
        return
    found = {name: number(value) for name, value in _FIELD.findall(line[head.end() - 2 :])}
    tokens = found.get("Tokens/s/device")
    yield LogEvent(
        event="step", line=at, step=int(head[1]), step_seconds=found.get("seconds"), loss=found.get("loss"),
        tflops_per_gpu=found.get("TFLOP/s/device"), tokens_per_second=tokens, grad_norm=found.get("grad_norm"),
        learning_rate=found.get("lr"), throughput_scope="per_device" if tokens is not None else None,
    )  # fmt: skip


FORMAT = Format(
    "maxtext",
    lambda: Stateless(_parse),
    hints=("completed step", "completed eval", "elastic attempt", "saved a checkpoint", "eval metrics after"),
    priority=45,
)
