"""DeepSpeed's own lines: `step=10, skipped=6, lr=[...]`, its timer and its pipeline engine.

They stand beside the records of the program that uses DeepSpeed, so they count only where nothing else tells the step.
"""

from __future__ import annotations

import re
from typing import Any

from watcher.events import LogEvent
from watcher.formats._api import Format
from watcher.formats._numbers import NUMBER, number
from watcher.formats._phases import phase_table

_STEP = re.compile(rf"\bstep=(\d{{1,12}}), skipped=(\d{{1,12}}), lr=\[({NUMBER})?")
_TIMER = re.compile(
    r"epoch=(\d{1,9})/micro_step=\d{1,12}/global_step=(\d{1,12}), RunningAvgSamplesPerSec=([\d.]{1,30}|inf)"
    r"(?:, CurrSamplesPerSec=([\d.]{1,30}|inf))?"
)
_PIPE = re.compile(
    rf"\bsteps: (\d{{1,12}}) loss: ({NUMBER}) iter time \(s\): ([\d.]{{1,20}}) samples/sec: ([\d.]{{1,20}})"
)

_phases = phase_table(
    ("training", "start", r"^\*{5} Running training \*{5}"),
    ("evaluation", "start", r"^\*{5} Evaluating"),
    ("evaluation", "end", r"^ppl: [\d.]|^(?:ppl|perplexity): inf"),
    ("startup", "start", r"\[runner\.py:\d+:main\] cmd ="),
)


class DeepSpeedReader:
    """Skipped steps are printed as a sum; the event carries what was added since the last line."""

    def __init__(self) -> None:
        self._skipped: int | None = None

    def flush(self) -> list[LogEvent]:
        return []

    def feed(self, line: str, at: int) -> list[LogEvent]:
        if found := _STEP.search(line):
            total = int(found[2])
            new = total - self._skipped if self._skipped is not None and total >= self._skipped else None
            self._skipped = total
            return [_step(at, found[1], learning_rate=number(found[3]), skipped_steps=new)]
        if found := _TIMER.search(line):
            rate = number(found[4] or found[3])
            scope = "global" if rate is not None else None
            return [_step(at, found[2], epoch=float(found[1]), samples_per_second=rate, throughput_scope=scope)]
        if found := _PIPE.search(line):
            known = {"loss": number(found[2]), "step_seconds": number(found[3]), "samples_per_second": number(found[4])}
            return [_step(at, found[1], throughput_scope="global", **known)]
        return _phases(line, at)


def _step(line: int, step: str, **known: Any) -> LogEvent:
    return LogEvent(event="step", line=line, step=int(step), **known)


FORMAT = Format(
    "deepspeed",
    DeepSpeedReader,
    hints=(
        "skipped=", "samplespersec", "iter time (s)", "*****", "ppl: ", "cmd =",
    ),
    priority=-20,
    bars=True,
)  # fmt: skip
