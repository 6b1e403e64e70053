"""InternEvo: `tflops=63.28 step=0 loss=11.64 tgs (tokens/gpu/second)=1424.93 ... grad_norm={'0_default': 66.5} ...`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._numbers import NUMBER, number

_HEAD = re.compile(rf"\btflops=({NUMBER}),? ?step=(\d{{1,12}}),? ?loss=({NUMBER})")
_TOKENS = re.compile(rf"\btgs \(tokens/gpu/second\)=({NUMBER})")
_RATE = re.compile(rf"\blr=({NUMBER})")
_SCALE = re.compile(rf"\bloss_scale=({NUMBER})")
_GRAD = re.compile(rf"\bgrad_norm=(?:\{{'[\w.-]{{1,60}}': )?({NUMBER})")


def _parse(line: str, at: int) -> Iterable[LogEvent]:
    head = _HEAD.search(line)
    if head is None:
        return
    tokens, rate, scale, grad = (p.search(line) for p in (_TOKENS, _RATE, _SCALE, _GRAD))
    yield LogEvent(
        event="step", line=at, step=int(head[2]), loss=number(head[3]), tflops_per_gpu=number(head[1]),
        tokens_per_second=number(tokens[1]) if tokens else None, throughput_scope="per_device" if tokens else None,
        learning_rate=number(rate[1]) if rate else None, loss_scale=number(scale[1]) if scale else None,
        grad_norm=number(grad[1]) if grad else None,
    )  # fmt: skip


FORMAT = Format("internevo", lambda: Stateless(_parse), hints=("tflops=",), priority=50)
