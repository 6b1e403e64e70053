"""LLaMA-Factory's trainer_log.jsonl: `{"current_steps": 10, "total_steps": 6566, "loss": 0.85, "lr": 9.9e-06}`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._numbers import number, whole


def _parse(line: str, at: int) -> Iterable[LogEvent]:
    start = line.find('{"current_steps"')
    item = _json(line[start:]) if start >= 0 else {}
    step = whole(item.get("current_steps"))
    if step is None:
        return
    if "eval_loss" in item:
        yield LogEvent(event="phase", line=at, phase="evaluation", edge="end")
        return
    loss = number(item.get("loss"))
    if loss is None:
        yield LogEvent(event="progress", line=at, counter=float(step), counter_total=number(item.get("total_steps")))
        return
    rate = number(item.get("throughput"))
    yield LogEvent(
        event="step", line=at, step=step, total_steps=whole(item.get("total_steps")), loss=loss,
        epoch=number(item.get("epoch")), learning_rate=number(item.get("lr", item.get("learning_rate"))),
        tokens_per_second=rate,
    )  # fmt: skip


def _json(text: str) -> dict[str, Any]:
    try:
        item, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return {}
    return item if isinstance(item, dict) else {}


FORMAT = Format("llamafactory", lambda: Stateless(_parse), hints=('"current_steps"',), priority=55)
