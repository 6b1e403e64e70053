"""PaddleNLP: `global step 100/20010, epoch: 0, batch: 99, rank_id: 0, loss: 1.2, lr: 1e-5, speed: 8.7 step/s`, and its
Trainer: `loss: 10.5, learning_rate: 3e-05, global_step: 10, interval_samples_per_second: 10.2, ...`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._numbers import NUMBER, number

_OLD = re.compile(r"global step (\d{1,12})(?:/(\d{1,12}))?, epoch: (\d{1,7}), batch: \d")
_NEW = re.compile(rf"\bloss: {NUMBER}, learning_rate: {NUMBER}, global_step: (\d{{1,12}})")
_FIELD = re.compile(rf"\b(loss|lr|learning_rate|speed|epoch|progress_or_epoch|interval_\w{{1,40}}|ips): ({NUMBER})")


def _parse(line: str, at: int) -> Iterable[LogEvent]:
    old, new = _OLD.search(line), _NEW.search(line)
    head = old or new
    if head is None:
        return
    found = {name: number(value) for name, value in _FIELD.findall(line)}
    per_second = found.get("speed", found.get("interval_steps_per_second"))
    samples = found.get("interval_samples_per_second")
    yield LogEvent(
        event="step", line=at, step=int(head[1]), total_steps=int(old[2]) if old and old[2] else None,
        epoch=float(old[3]) if old else found.get("progress_or_epoch"), loss=found.get("loss"),
        learning_rate=found.get("lr", found.get("learning_rate")), iterations_per_second=per_second,
        samples_per_second=samples,
    )  # fmt: skip


FORMAT = Format("paddlenlp", lambda: Stateless(_parse), hints=("global step ", "global_step: "), priority=45)
