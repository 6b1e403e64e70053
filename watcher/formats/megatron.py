"""Megatron-LM and Megatron-DeepSpeed: ` iteration 10/ 1000 | elapsed time per iteration (ms): 1380.0 | ... |`."""

from __future__ import annotations

import re
from typing import Any

from watcher.events import LogEvent
from watcher.formats._api import Format, FormatReader
from watcher.formats._numbers import NUMBER, number, whole

_HEAD = re.compile(r"(?:^|[|\]:\s])iteration\s{0,20}(\d{1,12})\s{0,3}/\s{0,20}(\d{1,12})\s{0,9}\|")


class MegatronReader:
    def feed(self, line: str, number: int) -> list[LogEvent]:
        head = _HEAD.search(line)
        if head is None:
            return []
        fields = _fields(line[head.end() :])
        return [LogEvent(event="step", line=number, step=int(head[1]), total_steps=int(head[2]), **fields)]

    def flush(self) -> list[LogEvent]:
        return []


_PAIR = re.compile(rf"\s*([A-Za-z][\w \-./()]{{0,60}}?)\s*:\s*({NUMBER})")


def _fields(text: str) -> dict[str, Any]:
    pairs: dict[str, str] = {}
    for cell in text.split("|"):
        match = _PAIR.match(cell)
        if match:
            pairs.setdefault(match[1].lower().replace("-", " "), match[2])
    out: dict[str, Any] = {}
    for unit, per_second in (("ms", 1000.0), ("s", 1.0)):
        value = number(pairs.get(f"elapsed time per iteration ({unit})"))
        if value is not None:
            out["step_seconds"] = value / per_second
    for field, key in (
        ("loss", "lm loss"), ("grad_norm", "grad norm"), ("learning_rate", "learning rate"),
        ("loss_scale", "loss scale"), ("samples_per_second", "samples per second"), ("tflops_per_gpu", "tflops"),
        ("tflops_per_gpu", "throughput per gpu (tflop/s/gpu)"),
    ):  # fmt: skip
        if (value := number(pairs.get(key))) is not None:
            out[field] = value
    for field, key in (
        ("batch_size", "global batch size"), ("skipped_steps", "number of skipped iterations"),
        ("nan_steps", "number of nan iterations"),
    ):  # fmt: skip
        if (count := whole(pairs.get(key))) is not None:
            out[field] = count
    return out


def _build() -> FormatReader:
    return MegatronReader()


FORMAT = Format("megatron", _build, hints=("iteration ",), priority=50)
