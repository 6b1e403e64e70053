"""OpenRLHF: `Global step 12: {'policy_loss': 0.1, ...}` beside nested bars (episodes, samples, training)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._bars import find_bar
from watcher.formats._numbers import number
from watcher.formats.hf_trainer import dict_pairs

_HEAD = re.compile(r"Global step (\d{1,12}): (\{.{1,8000})")
_EPISODE = re.compile(r"Episode \[(\d{1,7})/(\d{1,7})\]$")
_LOSSES = ("policy_loss", "act_loss", "loss", "gpt_loss")


def _parse(line: str, at: int) -> Iterable[LogEvent]:
    head = _HEAD.search(line)
    if head:
        pairs = dict_pairs(head[2])
        loss = next((number(pairs[name]) for name in _LOSSES if name in pairs), None)
        rate = number(pairs.get("actor_lr", pairs.get("lr")))
        yield LogEvent(event="step", line=at, step=int(head[1]), loss=loss, learning_rate=rate)
        return
    bar = find_bar(line)
    episode = _EPISODE.search(bar.description) if bar else None
    if bar is None or episode is None:
        return
    if bar.done == 0:  # nothing was generated yet
        yield LogEvent(event="progress", line=at, counter=0.0, counter_total=bar.total)
        return
    length, first = bar.total or 0, int(episode[1]) - 1
    yield LogEvent(
        event="step", line=at, step=first * length + bar.done, total_steps=int(episode[2]) * length or None,
        step_seconds=bar.seconds_per, iterations_per_second=bar.per_second, format="tqdm",
    )  # fmt: skip


FORMAT = Format("openrlhf", lambda: Stateless(_parse), hints=("global step ", "episode ["), priority=35)
