"""timm: `Train: 1 [5003/5004 (100%)]  Loss: 4.98 (5.77)  Time: 0.431s,  594.42/s  (0.474s,  540.05/s)  LR: 5.3e-03`."""

from __future__ import annotations

import re

from watcher.events import LogEvent
from watcher.formats._api import Format
from watcher.formats._numbers import NUMBER, number
from watcher.formats._phases import phase_table

_TRAIN = re.compile(
    rf"Train: (\d{{1,7}}) \[\s{{0,9}}(\d{{1,12}})/(\d{{1,12}})\s{{0,3}}\(\s{{0,3}}\d{{1,3}}%\)\]\s{{1,4}}"
    rf"Loss:\s{{1,6}}({NUMBER})"
)
_TIME = re.compile(rf"Time:\s{{1,4}}({NUMBER})s,\s{{1,9}}({NUMBER})/s")
_RATE = re.compile(rf"LR:\s{{1,4}}({NUMBER})")
_GRAD = re.compile(rf"Grad(?:_norm)?:\s{{1,4}}({NUMBER})", re.IGNORECASE)
_TEST = re.compile(r"(Test(?: \([\w ]{1,20}\))?): \[\s{0,9}(\d{1,12})/(\d{1,12})\]")
_phases = phase_table(
    ("checkpoint", "end", r"^Current checkpoints:"),
    ("finished", "start", r"^\*\*\* Best metric: "),
)


class TimmReader:
    def __init__(self) -> None:
        self._test: str | None = None  # the evaluation that is open

    def feed(self, line: str, at: int) -> list[LogEvent]:
        test = _TEST.search(line)
        if test:
            return self._evaluation(test, at)
        found = _TRAIN.search(line)
        if found is None:
            return _phases(line, at)
        self._test = None
        epoch, length = int(found[1]), int(found[3])
        taken, rate, grad = _TIME.search(line), _RATE.search(line), _GRAD.search(line)
        return [
            LogEvent(
                event="step", line=at, step=epoch * length + int(found[2]), epoch=float(epoch), loss=number(found[4]),
                step_seconds=number(taken[1]) if taken else None, learning_rate=number(rate[1]) if rate else None,
                samples_per_second=number(taken[2]) if taken else None, grad_norm=number(grad[1]) if grad else None,
                throughput_scope="global" if taken else None,
            )
        ]  # fmt: skip

    def flush(self) -> list[LogEvent]:
        return []

    def _evaluation(self, test: re.Match[str], at: int) -> list[LogEvent]:
        done, length = int(test[2]), int(test[3])
        out = [LogEvent(event="progress", line=at, counter=float(done), counter_total=float(length))]
        if self._test != test[1]:
            out.append(LogEvent(event="phase", line=at, phase="evaluation", edge="start"))
        self._test = test[1]
        if done >= length:
            out.append(LogEvent(event="phase", line=at, phase="evaluation", edge="end"))
            self._test = None
        return out


FORMAT = Format(
    "timm", TimmReader, hints=("train: ", "test: [", "test (", "current checkpoints", "best metric"), priority=45
)
