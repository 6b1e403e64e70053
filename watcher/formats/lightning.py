"""Lightning (and NeMo 1): `Epoch 0:  3%|3 | 34103/1100000 [5:28:58<171:22:21,  1.73it/s, loss=2.52, v_num=0]`."""

from __future__ import annotations

import re

from watcher.events import LogEvent
from watcher.formats._api import Format
from watcher.formats._bars import Bar, find_bar
from watcher.formats._numbers import number
from watcher.formats._phases import phase_table

_EPOCH = re.compile(r"(?:^|\s)Epoch (\d{1,7}):?$")
_OURS = re.compile(r"\bv_num=|Epoch \d+:(?: :)? {1,9}\d{1,3}%\|")
# `Epoch 0/9 ━━━━╸   100/200 0:00:30 • 0:00:30 3.30it/s v_num: 0.000 train_loss: 0.5`; the last epoch is 9
_RICH = re.compile(
    r"Epoch (\d{1,7})(?:/(\d{1,7}))?\s{1,9}[━╸╺ ]{0,200}\s?(\d{1,12})/(\d{1,12})\s.{0,60}?([\d.]{1,12})it/s(.{0,2000})"
)
_VALUE = re.compile(r"([\w/]{1,60}): ([-+.\deE]{1,30})")
_EVALUATION = re.compile(r"(Validation|Validating|Testing|Predicting|Sanity Checking|Validation sanity check)\b")
# an epoch that long is one pass over the data: its length is the run's
WHOLE_RUN = 50_000
_phases = phase_table(
    ("finished", "start", r"`Trainer\.fit` stopped:|Trainer was signaled to stop"),
    ("startup", "start", r"All distributed processes registered\. Starting with \d+ processes"),
)
_LOSSES = ("reduced_train_loss", "train_loss_step", "train_loss", "train/loss", "train_loss_epoch", "loss")


class LightningReader:
    def __init__(self) -> None:
        self._evaluating = False
        self._first: int | None = None

    def feed(self, line: str, at: int) -> list[LogEvent]:
        bar = find_bar(line) if "%|" in line else None
        if bar is None:
            rich = _RICH.search(line) if "it/s" in line else None
            return [_rich_step(rich, at)] if rich else _phases(line, at)
        if _EVALUATION.match(bar.description):
            return self._evaluation(bar, at)
        epoch = _EPOCH.search(bar.description)
        if epoch is None or not _OURS.search(line):
            return []
        if self._first is None:  # Lightning counts from 0; a loop of one's own may count from 1
            self._first = 1 if epoch[1] == "1" and "v_num" not in line else 0
        return [*self._left(at), _step(bar, int(epoch[1]), max(0, int(epoch[1]) - self._first), at)]

    def flush(self) -> list[LogEvent]:
        return []

    def _evaluation(self, bar: Bar, at: int) -> list[LogEvent]:
        out = [LogEvent(event="progress", line=at, counter=bar.done, counter_total=bar.total)]
        if not self._evaluating and not bar.description.startswith(("Sanity", "Validation sanity")):
            self._evaluating = True
            out.append(LogEvent(event="phase", line=at, phase="evaluation", edge="start"))
        return out

    def _left(self, at: int) -> list[LogEvent]:
        was, self._evaluating = self._evaluating, False
        return [LogEvent(event="phase", line=at, phase="evaluation", edge="end")] if was else []


def _rich_step(found: re.Match[str], at: int) -> LogEvent:
    epoch, length = int(found[1]), int(found[4])
    epochs = int(found[2]) + 1 if found[2] else None
    values = dict(_VALUE.findall(found[6] or ""))
    loss = next((values[key] for key in _LOSSES if key in values), None)
    return LogEvent(
        event="step", line=at, step=epoch * length + int(found[3]), total_steps=epochs * length if epochs else None,
        epoch=float(epoch), iterations_per_second=number(found[5]), loss=number(loss),
    )  # fmt: skip


def _step(bar: Bar, epoch: int, before: int, at: int) -> LogEvent:
    """`before`: epochs that were done before this one."""
    total = bar.total if bar.total is not None and before == 0 and bar.total >= WHOLE_RUN else None
    step = bar.done + before * (bar.total or 0)
    loss = next((bar.postfix[key] for key in _LOSSES if key in bar.postfix), None)
    return LogEvent(
        event="step", line=at, step=step, total_steps=total, epoch=float(epoch), loss=number(loss),
        iterations_per_second=bar.per_second, step_seconds=number(bar.postfix.get("train_step_timing in s")) or
        bar.seconds_per, grad_norm=number(bar.postfix.get("grad_norm")), learning_rate=number(bar.postfix.get("lr")),
    )  # fmt: skip


FORMAT = Format(
    "lightning",
    LightningReader,
    hints=("%|", "it/s", "trainer.fit", "signaled to stop", "processes registered"),
    priority=10,
)
