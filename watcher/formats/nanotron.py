"""nanotron: `iteration: 5 / 15 | consumed_tokens: 1.05M | time_per_iteration_ms: 1.2K | tokens_per_sec: 437K | ...`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._pairs import fields, pairs

_HEAD = re.compile(r"iteration: (\d{1,12}) / (\d{1,12}) \|")


def _parse(line: str, number: int) -> Iterable[LogEvent]:
    head = _HEAD.search(line)
    if head is not None:
        known = fields(pairs(line[head.end() :]))
        yield LogEvent(event="step", line=number, step=int(head[1]), total_steps=int(head[2]), **known)


FORMAT = Format("nanotron", lambda: Stateless(_parse), hints=("consumed_tokens",), priority=40)
