"""torchtune: bars `1|3|Loss: 1.94:   0%|  | 3/1617 [00:21<3:04:47,  6.87s/it]`, `Step 3 | loss:1.94 lr:2e-5 ...`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._bars import find_bar
from watcher.formats._numbers import NUMBER, number
from watcher.formats._phases import phase_table

_BAR = re.compile(rf"(\d{{1,7}})\|(\d{{1,12}})\|Loss: ({NUMBER})")
_LINE = re.compile(rf"^Step (\d{{1,12}}) \| ((?:[\w/-]{{1,60}}:{NUMBER}\s?){{1,60}})")
_PAIR = re.compile(rf"([\w/-]{{1,60}}):({NUMBER})")
_phases = phase_table(
    ("checkpoint", "start", r"Saving checkpoint\. This may take"),
    ("checkpoint", "end", r"Saving checkpoint took [\d.]+ secs|Model checkpoint of size .{1,40} saved to"),
)


def _parse(line: str, at: int) -> Iterable[LogEvent]:
    bar, found = None, _BAR.search(line) if "|Loss: " in line else None
    if found and (bar := find_bar(line[found.end() :])):
        yield LogEvent(
            event="step", line=at, step=int(found[2]), epoch=float(found[1]), loss=number(found[3]),
            step_seconds=bar.seconds_per, iterations_per_second=bar.per_second, format="tqdm",
        )  # fmt: skip
        return
    written = _LINE.match(line)
    if written is None:
        yield from _phases(line, at)
        return
    pairs = {name: number(value) for name, value in _PAIR.findall(written[2])}
    rate = pairs.get("tokens_per_second_per_gpu")
    yield LogEvent(
        event="step", line=at, step=int(written[1]), loss=pairs.get("loss"), learning_rate=pairs.get("lr"),
        grad_norm=pairs.get("grad_norm"), tokens_per_second=rate,
        throughput_scope="per_device" if rate is not None else None,
    )  # fmt: skip


FORMAT = Format(
    "torchtune",
    lambda: Stateless(_parse),
    hints=("|loss: ", "step ", "saving checkpoint", "model checkpoint"),
    priority=40,
)
