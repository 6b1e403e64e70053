"""Composer and llm-foundry: a header `[batch=1/1000]:` (or `[epoch=1][batch=5/64]:`), then a line per metric."""

from __future__ import annotations

import re
from typing import Any

from watcher.events import LogEvent
from watcher.formats._api import HELD, Format, Held
from watcher.formats._numbers import NUMBER, number
from watcher.formats._phases import phase_table

_HEAD = re.compile(r"^\s{0,4}(?:\[epoch=(\d{1,7})(?:/\d{1,7})?\])?\[batch=(\d{1,12})/(\d{1,12})\]:\s*$")
_METRIC = re.compile(rf"^\s{{0,12}}Train ([\w/ ().-]{{2,120}}): ({NUMBER})\s*$")
_EVALUATION = re.compile(r"^\s{0,4}\[Eval batch=(\d{1,12})/(\d{1,12})\]")
_phases = phase_table(
    ("evaluation", "end", r"^\s{0,12}Eval metrics/"), ("training", "start", r"Starting training\.\.\.")
)


class ComposerReader:
    def __init__(self) -> None:
        self._line = 0
        self._known: dict[str, Any] | None = None
        self._evaluating = False

    @property
    def busy(self) -> bool:
        return self._known is not None

    def feed(self, line: str, at: int) -> list[LogEvent]:
        head = _HEAD.match(line)
        if head:
            out = self.flush()
            batch, total = int(head[2]), int(head[3])
            epoch = int(head[1]) if head[1] else None
            step = batch if epoch is None else (epoch - 1) * total + batch
            self._line, self._evaluating = at, False
            self._known = {"step": step, "total_steps": total if epoch is None else None}
            self._known["epoch"] = None if epoch is None else float(epoch)
            return Held(out)
        metric = _METRIC.match(line) if self._known is not None else None
        if metric and self._known is not None:
            _take(self._known, metric[1], number(metric[2]))
            return HELD
        return [*self.flush(), *self._other(line, at)]

    def flush(self) -> list[LogEvent]:
        known, self._known = self._known, None
        return [] if known is None else [LogEvent(event="step", line=self._line, **known)]

    def _other(self, line: str, at: int) -> list[LogEvent]:
        evaluation = _EVALUATION.match(line)
        if evaluation is None:
            found = _phases(line, at) if self._evaluating or "Starting" in line else []
            self._evaluating = self._evaluating and not found
            return found
        done, total = float(evaluation[1]), float(evaluation[2])
        out = [LogEvent(event="progress", line=at, counter=done, counter_total=total)]
        if not self._evaluating:
            out.append(LogEvent(event="phase", line=at, phase="evaluation", edge="start"))
        self._evaluating = True
        return out


def _take(known: dict[str, Any], name: str, value: float | None) -> None:
    if name in ("loss/train/total", "loss/train"):
        known["loss"] = value
    elif name == "throughput/device/tokens_per_sec":
        known |= {"tokens_per_second": value, "throughput_scope": "per_device"}
    elif name == "throughput/tokens_per_sec" and "tokens_per_second" not in known:
        known |= {"tokens_per_second": value, "throughput_scope": "global"}
    elif name == "throughput/device/flops_per_sec" and value is not None:
        known["tflops_per_gpu"] = value / 1e12
    elif name == "throughput/batches_per_sec":
        known["iterations_per_second"] = value
    elif name == "l2_norm/grad/global":
        known["grad_norm"] = value
    elif name.startswith("lr-"):
        known.setdefault("learning_rate", value)


FORMAT = Format("composer", ComposerReader, hints=("batch=", "eval metrics/", "starting training"), priority=45)
