"""XTuner 1: `Step 1/32 data_time: 0.0039 lr: 0.000060 time: 0.55 ... total_loss: 12.1 ... grad_norm: 16.7 tgs: 2017`.

`tgs` is tokens per GPU and second of this step; XTuner 0 prints mmengine's lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._numbers import NUMBER, number

_HEAD = re.compile(r"\bStep (\d{1,12})/(\d{1,12}) data_time: ")
_FIELD = re.compile(rf"\b(lr|time|total_loss|loss|grad_norm|tgs): ({NUMBER})")


def _parse(line: str, at: int) -> Iterable[LogEvent]:
    head = _HEAD.search(line)
    if head is None:
        return
    found: dict[str, float | None] = {}
    for name, value in _FIELD.findall(line[head.end() :]):
        found.setdefault(name, number(value))
    tokens = found.get("tgs")
    yield LogEvent(
        event="step", line=at, step=int(head[1]), total_steps=int(head[2]), step_seconds=found.get("time"),
        loss=found.get("total_loss", found.get("loss")), grad_norm=found.get("grad_norm"),
        learning_rate=found.get("lr"), tokens_per_second=tokens,
        throughput_scope="per_device" if tokens is not None else None,
    )  # fmt: skip


FORMAT = Format("xtuner", lambda: Stateless(_parse), hints=("data_time:",), priority=50)
