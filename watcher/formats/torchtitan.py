"""torchtitan: `step: 10  loss: 10.4260  grad_norm:  1.4604  memory: 30.89GiB(32.51%)  tps: 6,344  tflops: 367.39`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._numbers import NUMBER, number
from watcher.formats._phases import phase_table

_STEP = re.compile(rf"(validate )?step:\s{{0,9}}(\d{{1,12}})\s{{1,9}}(?:.{{0,80}}?)loss:\s{{0,9}}({NUMBER})")
_FIELD = re.compile(rf"\b(grad_norm|tps|wps|tflops|lr):\s{{0,9}}({NUMBER})")
_TOTAL = re.compile(r"total (?:training )?steps:? (\d{1,12})", re.IGNORECASE)
_phases = phase_table(
    ("startup", "start", r"Starting job: "),
    ("training", "start", r"Training starts at step \d"),
    ("checkpoint", "start", r"Saving the checkpoint"),
    ("checkpoint", "end", r"Finished saving the checkpoint"),
    ("finished", "start", r"^Training completed$|^Process group destroyed"),
)


def _parse(line: str, at: int) -> Iterable[LogEvent]:
    found = _STEP.search(line)
    if found is None:
        yield from _phases(line, at)
        return
    if found[1]:
        yield LogEvent(event="phase", line=at, phase="evaluation", edge="end")
        return
    if "tps:" not in line and "mfu:" not in line:
        return
    fields = {name: number(value) for name, value in _FIELD.findall(line)}
    loss, rate = number(found[3]), fields.get("tps", fields.get("wps"))
    yield LogEvent(
        event="step", line=at, step=int(found[2]), loss=None if loss == -1.0 else loss,
        grad_norm=fields.get("grad_norm"), learning_rate=fields.get("lr"), tokens_per_second=rate,
        tflops_per_gpu=fields.get("tflops"), throughput_scope="per_device" if rate is not None else None,
    )  # fmt: skip


FORMAT = Format(
    "torchtitan",
    lambda: Stateless(_parse),
    hints=("step:", "starting job", "training starts", "the checkpoint", "training completed", "group destroyed"),
    priority=40,
)
