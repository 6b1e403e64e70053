"""GPT-NeoX: ` samples/sec: 226.4 | iteration 30/ 320000 | elapsed time per iteration (ms): 283.0 | lm_loss: ... |`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._pairs import fields, pairs
from watcher.formats._phases import phase_table

_HEAD = re.compile(r"samples/sec: [\d.]{1,20} \| iteration\s{0,20}(\d{1,12})\s{0,3}/\s{0,20}(\d{1,12})\s{0,9}\|")
_phases = phase_table(("evaluation", "end", r"(?:validation|test) results at (?:iteration|the end)"))


def _parse(line: str, number: int) -> Iterable[LogEvent]:
    head = _HEAD.search(line)
    if head is None:
        yield from _phases(line, number)
        return
    known = fields(pairs(line[: head.end()].split("iteration")[0]) | pairs(line[head.end() :]))
    yield LogEvent(event="step", line=number, step=int(head[1]), total_steps=int(head[2]), **known)


FORMAT = Format("gpt_neox", lambda: Stateless(_parse), hints=("samples/sec", " results at "), priority=60)
