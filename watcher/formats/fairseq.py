"""fairseq and metaseq: `train_inner | {"num_updates": "10", ...}` or `| epoch 001: 1000 / 1637 ..., num_updates=996`.

`num_updates` is the step: an update that overflowed does not count. `wps` is tokens per second over all GPUs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._numbers import NUMBER, number, whole
from watcher.formats._phases import phase_table

_INNER = re.compile(r"\btrain_inner \| (\{.{1,8000})")
_SIMPLE = re.compile(r"\bepoch (\d{1,7}):\s{1,6}\d{1,12} / \d{1,12} (.{1,4000})")
_EPOCH_END = re.compile(r"\bepoch (\d{1,7}) \| ((?:train_)?loss .{1,4000})")
_FIELD = re.compile(rf"(?:^|[,|]\s?)\s?(?:train_)?(loss|wps|ups|num_updates|lr|gnorm|loss_scale)[= ]({NUMBER})")
_phases = phase_table(
    ("evaluation", "start", r"begin validation on "),
    ("evaluation", "end", r"(?:^|\| )valid \| |\| valid on '|\| epoch \d+ \| valid"),
    ("checkpoint", "start", r"Preparing to save checkpoint for epoch"),
    ("checkpoint", "end", r"Saved checkpoint "),
    ("finished", "start", r"\bdone training in "),
)


def _parse(line: str, at: int) -> Iterable[LogEvent]:
    inner = _INNER.search(line)
    if inner:
        yield from _event(_json(inner[1]), at)
        return
    found = _SIMPLE.search(line) or (None if "valid" in line else _EPOCH_END.search(line))
    fields = dict(_FIELD.findall(found[2])) if found else {}
    if found and "num_updates" in fields:
        yield from _event({**fields, "epoch": found[1]}, at)
    else:
        yield from _phases(line, at)


def _event(fields: dict[str, Any], at: int) -> Iterable[LogEvent]:
    step = whole(fields.get("num_updates"))
    if step is None:
        return
    tokens = number(fields.get("wps"))
    yield LogEvent(
        event="step", line=at, step=step, epoch=number(fields.get("epoch")), loss=number(fields.get("loss")),
        tokens_per_second=tokens, throughput_scope="global" if tokens is not None else None,
        iterations_per_second=number(fields.get("ups")), learning_rate=number(fields.get("lr")),
        grad_norm=number(fields.get("gnorm")), loss_scale=number(fields.get("loss_scale")),
    )  # fmt: skip


def _json(text: str) -> dict[str, Any]:
    try:
        item, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return {}
    return item if isinstance(item, dict) else {}


FORMAT = Format(
    "fairseq",
    lambda: Stateless(_parse),
    hints=("train_inner", "num_updates", "validation on", "| valid", "save checkpoint", "saved checkpoint",
           "done training in"),
    priority=45,
)  # fmt: skip
