"""NVIDIA's DLLogger: `DLL 2025-10-03 22:15:58.95 - Iteration 3993 | iteration_time : 71.4 ms | train_loss : 0.835`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._numbers import NUMBER, number, seconds, whole

_HEAD = re.compile(r"\bDLL \d{4}-\d\d-\d\d [\d:.]{8,15} - (.{1,4000})")
_STEP = re.compile(r"(?:Iteration|Step|iteration|step)[ :=]{1,3}(\d{1,12})(?:\s?/\s?(\d{1,12}))?")
_TIMES = ("iteration_time", "step_time", "iter_time")
_EPOCH = re.compile(r"Epoch[ :=]{1,3}(\d{1,7})")
_PAIR = re.compile(rf"(\w[\w/.]{{0,60}})\s?:\s({NUMBER})(?: (ms|s|samples/s|sequences/s|tokens/s))?")


def _parse(line: str, at: int) -> Iterable[LogEvent]:
    if "DLLL {" in line:
        yield from _json_line(line[line.index("DLLL {") + 5 :], at)
        return
    head = _HEAD.search(line)
    step = _STEP.search(head[1]) if head else None
    if head is None or step is None:
        return
    pairs = {m[1].lower(): (m[2], m[3]) for m in _PAIR.finditer(head[1])}
    values = {name: number(text) for name, (text, _) in pairs.items()}
    taken = next((seconds(*_timed(pairs[name])) for name in _TIMES if name in pairs), None)
    epoch = _EPOCH.search(head[1])
    yield from _event(
        at, int(step[1]), int(step[2]) if step[2] else None, int(epoch[1]) if epoch else None, values, taken
    )


def _json_line(text: str, at: int) -> Iterable[LogEvent]:
    """The JSON stream: `{"type": "LOG", "step": [epoch, iteration], "data": {...}}`."""
    try:
        item, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return
    if not isinstance(item, dict) or not isinstance(item.get("data"), dict):
        return
    step = item.get("step")
    place = [whole(part) for part in step] if isinstance(step, list) else [whole(step)]
    if not place or place[-1] is None or len(place) > 2:
        return
    values = {str(name).lower(): number(value) for name, value in item["data"].items()}
    epoch = place[0] if len(place) == 2 else None
    yield from _event(at, place[-1], None, epoch, values, next((values[n] for n in _TIMES if n in values), None))


def _event(
    at: int, step: int, total: int | None, epoch: int | None, values: dict[str, float | None], taken: float | None
) -> Iterable[LogEvent]:
    def value(*names: str) -> float | None:
        return next((values[name] for name in names if name in values), None)

    loss = value("train_loss", "step_loss", "average_loss", "loss", "train.loss", "total_loss")
    if loss is None and taken is None:
        return
    yield LogEvent(
        event="step", line=at, step=step, total_steps=total, loss=loss, epoch=None if epoch is None else float(epoch),
        step_seconds=taken, learning_rate=value("learning_rate", "lr"), grad_norm=value("grad_norm"),
        samples_per_second=value("throughput_train", "train_samples/s", "items/s"),
    )  # fmt: skip


def _timed(pair: tuple[str, str | None]) -> tuple[str, str]:
    return pair[0], pair[1] or "s"


FORMAT = Format("dllogger", lambda: Stateless(_parse), hints=("dll 2", "dlll {"), priority=60)
