"""OLMo and OLMo-core: a header `[step=2/739328,epoch=0]`, then one indented `name=value` line per metric."""

from __future__ import annotations

import re
from typing import Any

from watcher.events import LogEvent
from watcher.formats._api import HELD, Format, Held
from watcher.formats._numbers import number, whole
from watcher.formats._phases import phase_table

_HEAD = re.compile(r"\[step=(\d{1,12})/(\d{1,12}|\?{1,5})(?:,epoch=(\d{1,7}))?[^\]\n]{0,60}\]\s*$")
_METRIC = re.compile(r"^\s{0,12}([A-Za-z][\w/ ().-]{1,120}/[\w/ ().-]{1,120})=(\S{1,60})\s*$")
_EVALUATION = re.compile(r"\[eval(?:_step|=[^,\]]{1,80},step)=(\d{1,12})/(\d{1,12})\]")
_phases = phase_table(
    ("evaluation", "start", r"Running .{1,80} evals\.\.\.|Starting evaluation|Evaluating\.\.\."),
    ("evaluation", "end", r"Finished .{1,80} evals in "),
    ("checkpoint", "start", r"Saving (?:unsharded )?checkpoint(?:\.\.\.| for step)"),
    ("checkpoint", "end", r"Checkpoint saved to|Checkpoint for step \d+ saved successfully"),
    ("finished", "start", r"\bTraining complete\b"),
)
_FIELDS: dict[str, str] = {
    "train/crossentropyloss": "loss", "train/ce loss": "loss", "train/loss": "loss",
    "optim/total_grad_norm": "grad_norm", "optim/total grad norm": "grad_norm",
    "optim/learning_rate_group0": "learning_rate", "optim/lr (group 0)": "learning_rate",
    "throughput/device/tokens_per_second": "tokens_per_second", "throughput/device/tps": "tokens_per_second",
}  # fmt: skip


class OlmoReader:
    def __init__(self) -> None:
        self._line = 0
        self._known: dict[str, Any] | None = None  # of the record whose metrics are being read

    @property
    def busy(self) -> bool:
        return self._known is not None

    def feed(self, line: str, at: int) -> list[LogEvent]:
        head = _HEAD.search(line)
        if head:
            out = self.flush()
            self._line = at
            self._known = {"step": int(head[1]), "total_steps": whole(head[2])}
            self._known["epoch"] = float(head[3]) if head[3] else None
            return Held(out)
        metric = _METRIC.match(line) if self._known is not None else None
        if metric and self._known is not None:
            self._take(self._known, metric[1].lower().strip(), metric[2])
            return HELD
        return [*self.flush(), *self._other(line, at)]

    def flush(self) -> list[LogEvent]:
        known, self._known = self._known, None
        return [] if known is None else [LogEvent(event="step", line=self._line, **known)]

    def _take(self, known: dict[str, Any], name: str, text: str) -> None:
        field = _FIELDS.get(name)
        if field is not None:
            known[field] = number(text)
            if field == "tokens_per_second":
                known["throughput_scope"] = "per_device"
        elif name == "optim/step skipped":
            known["skipped_steps"] = whole(text)

    def _other(self, line: str, at: int) -> list[LogEvent]:
        evaluation = _EVALUATION.search(line)
        if evaluation:
            done, total = float(evaluation[1]), float(evaluation[2])
            return [LogEvent(event="progress", line=at, counter=done, counter_total=total)]
        return _phases(line, at)


FORMAT = Format(
    "olmo",
    OlmoReader,
    hints=("[step=", "[eval", "evals", "evaluati", "checkpoint", "training complete"),
    priority=45,
)
