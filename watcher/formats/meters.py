"""Loops with average meters, as in PyTorch's ImageNet example and NVIDIA's GNMT: value and running average.

`Epoch: [0][  10/5005]  Time  0.508 ( 1.200)  Data  0.000 ( 0.500)  Loss 6.9e+00 (7.0e+00)`
`TRAIN [0][10/1938]  Time 0.115 (0.186)  Tok/s 89553 (81553)  Loss/tok 9.6702 (10.2121)  LR 2.021e-05`
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._numbers import NUMBER, number

_HEAD = re.compile(
    r"(?:^|\s)(Epoch|Epoch\(train\)|TRAIN|Train|VALIDATION|Validation|TEST|Test|Val):?\s{0,2}(?:\[\s{0,6}(\d{1,7})\])?\s{0,2}"
    r"\[\s{0,9}(\d{1,12})\s{0,2}/\s{0,2}(\d{1,12})\](?=.{0,60}?\bTime\b)"
)
_METER = re.compile(rf"([A-Za-z][\w/@.]{{0,30}}):?\s{{1,6}}({NUMBER})\s{{0,3}}\(\s{{0,6}}{NUMBER}\s{{0,3}}\)")
_RATE = re.compile(rf"\bLR:?\s{{1,3}}({NUMBER})", re.IGNORECASE)


def _parse(line: str, at: int) -> Iterable[LogEvent]:
    head = _HEAD.search(line)
    if head is None or "eta:" in line:
        return
    done, length = int(head[3]), int(head[4])
    if head[1] not in ("Epoch", "Epoch(train)", "TRAIN", "Train"):
        yield LogEvent(event="progress", line=at, counter=float(done), counter_total=float(length))
        return
    meters = {name.lower(): number(value) for name, value in _METER.findall(line[head.end() :][:4000])}
    if "time" not in meters:
        return
    epoch = int(head[2]) if head[2] else None
    learning_rate = _RATE.search(line)
    tokens = meters.get("tok/s")
    yield LogEvent(
        event="step", line=at, step=done + (epoch or 0) * length, epoch=None if epoch is None else float(epoch),
        step_seconds=meters["time"], loss=meters.get("loss", meters.get("loss/tok")), tokens_per_second=tokens,
        learning_rate=number(learning_rate[1]) if learning_rate else None,
    )  # fmt: skip


FORMAT = Format("meters", lambda: Stateless(_parse), hints=("time ", "time\t"), priority=15)
