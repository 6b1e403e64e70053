"""ms-swift: the Trainer's dict with `'global_step/max_steps': '1/94'` in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats.hf_trainer import dict_pairs, record

_STEP = re.compile(r"['\"]global_step/max_steps['\"]: ['\"](\d{1,12})/(\d{1,12})")


def _parse(line: str, at: int) -> Iterable[LogEvent]:
    found = _STEP.search(line)
    if found is None:
        return
    pairs = dict_pairs(line)
    if "eval_loss" in pairs:
        yield LogEvent(event="phase", line=at, phase="evaluation", edge="end")
    if "loss" in pairs:
        yield replace(record(pairs, at), step=int(found[1]), total_steps=int(found[2]))


FORMAT = Format("swift", lambda: Stateless(_parse), hints=("global_step/max_steps",), priority=55)
