"""verl: `step:1 - actor/pg_loss:0.01 - perf/throughput:812.5 - timing_s/step:20.1 - ...`, 50 to 100 values."""

from __future__ import annotations

import re
from collections.abc import Iterable

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._numbers import NUMBER, number

_HEAD = re.compile(r"(?:^|\s)step:(\d{1,12}) - (?=[\w/@.()-]{1,120}:)")
_PAIR = re.compile(rf"(?:^|- )([\w/@.()-]{{1,120}}?):(?:np\.float\d\d\()?({NUMBER})")
_LOSSES = ("actor/pg_loss", "actor/loss", "train/loss", "critic/vf_loss", "critic/loss")


def _parse(line: str, at: int) -> Iterable[LogEvent]:
    head = _HEAD.search(line)
    if head is None:
        return
    found = {name: number(value) for name, value in _PAIR.findall(line[head.end() :])}
    if found and all(name.startswith("val") for name in found):
        yield LogEvent(event="phase", line=at, phase="evaluation", edge="end")
        return

    def first(*names: str) -> float | None:
        return next((found[name] for name in names if name in found), None)

    tokens = found.get("perf/throughput")
    yield LogEvent(
        event="step", line=at, step=int(head[1]), loss=first(*_LOSSES), tokens_per_second=tokens,
        throughput_scope="per_device" if tokens is not None else None,
        step_seconds=first("perf/time_per_step", "timing_s/step", "timing/step", "train/time(s)"),
        grad_norm=first("actor/grad_norm", "train/grad_norm", "critic/grad_norm"),
        learning_rate=first("actor/lr", "train/lr"),
    )  # fmt: skip


FORMAT = Format("verl", lambda: Stateless(_parse), hints=("step:",), priority=35)
