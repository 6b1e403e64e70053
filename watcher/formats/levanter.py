"""Levanter: `Progress on:train 19.0it/70.0it rate:76.8s/it remaining:1:05:15 elapsed:31:40 postfix:loss=3.2`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._numbers import number
from watcher.formats._phases import phase_table

_BAR = re.compile(
    r"Progress on:\s?(\S{1,60}) ([\d.]{1,15})([kM]?)it/([\d.]{1,15}|\?)([kM]?)(?:it)?"
    r"(?:.{0,40}?rate:([\d.]{1,15})(s/it|it/s))?(?:.{0,200}?\bloss=([^,\s]{1,30}))?"
)
_FACTOR = {"": 1.0, "k": 1e3, "M": 1e6}
_phases = phase_table(
    ("checkpoint", "start", r"Saving checkpoint at step \d+"),
    ("checkpoint", "end", r"Saved checkpoint to .{1,1000} for step \d+"),
)


def _parse(line: str, at: int) -> Iterable[LogEvent]:
    bar = _BAR.search(line)
    if bar is None:
        yield from _phases(line, at)
        return
    done, total = _count(bar[2], bar[3]), _count(bar[4], bar[5])
    if not bar[1].startswith("train") or done is None:
        yield LogEvent(event="progress", line=at, counter=done, counter_total=total)
        return
    yield LogEvent(
        event="step", line=at, step=round(done), total_steps=None if total is None else round(total),
        step_seconds=number(bar[6]) if bar[7] == "s/it" else None, loss=number(bar[8]),
        iterations_per_second=number(bar[6]) if bar[7] == "it/s" else None,
    )  # fmt: skip


def _count(text: str, suffix: str) -> float | None:
    value = number(text)
    return None if value is None else value * _FACTOR[suffix]


FORMAT = Format(
    "levanter",
    lambda: Stateless(_parse),
    hints=("progress on:", "checkpoint at step", "saved checkpoint to"),
    priority=45,
)
