"""YOLOv5 and ultralytics: `  0/2  3.91G  0.04618  0.07209  0.01703  232  640: 100% 8/8 [00:09<00:00,  1.17s/it]`."""

from __future__ import annotations

import re

from watcher.events import LogEvent
from watcher.formats._api import Format
from watcher.formats._numbers import number
from watcher.formats._phases import phase_table

_TRAIN = re.compile(
    r"^\s{0,40}(\d{1,7})/(\d{1,7})\s{1,20}[\d.]{1,12}[GM]B?\s{1,20}([\d.]{1,16}|nan)\s[\s\d.nan]{0,300}?:\s{1,4}"
    r"(\d{1,3})%.{0,200}?(\d{1,12})/(\d{1,12})\s(.{0,120})"
)
_RATE = re.compile(r"([\d.]{1,16})(s/it|it/s)")
_VALIDATION = re.compile(r"^\s{0,40}Class\s{1,20}Images\s.{0,200}?:\s{1,4}(\d{1,3})%.{0,200}?(\d{1,12})/(\d{1,12})\s")
_phases = phase_table(
    ("training", "start", r"^Starting training for \d+ epochs"),
    ("training", "end", r"^\d+ epochs completed in "),
    ("evaluation", "start", r"^Validating \S"),
    ("finished", "start", r"^Results saved to "),
)


class UltralyticsReader:
    """Epochs count from 0 in YOLOv5 (the last of 3 is `2/2`) and from 1 later (`3/3`)."""

    def __init__(self) -> None:
        self._base: int | None = None

    def feed(self, line: str, at: int) -> list[LogEvent]:
        validation = _VALIDATION.match(line)
        if validation:
            done, length = float(validation[2]), float(validation[3])
            out = [LogEvent(event="progress", line=at, counter=done, counter_total=length)]
            if done >= length:
                out.append(LogEvent(event="phase", line=at, phase="evaluation", edge="end"))
            return out
        found = _TRAIN.match(line)
        if found is None:
            marks = _phases(line, at)
            if any(mark.phase == "training" and mark.edge == "start" for mark in marks):
                self._base = None
            return marks
        epoch, last, done, length = int(found[1]), int(found[2]), int(found[5]), int(found[6])
        if self._base is None:
            self._base = 0 if epoch == 0 else 1
        epochs = last + 1 - self._base
        rate = _RATE.search(found[7])
        return [
            LogEvent(
                event="step", line=at, step=(epoch - self._base) * length + done, total_steps=epochs * length,
                epoch=float(epoch), loss=number(found[3]),
                step_seconds=number(rate[1]) if rate and rate[2] == "s/it" else None,
                iterations_per_second=number(rate[1]) if rate and rate[2] == "it/s" else None,
            )
        ]  # fmt: skip

    def flush(self) -> list[LogEvent]:
        return []


FORMAT = Format(
    "ultralytics",
    UltralyticsReader,
    hints=("it/s", "s/it", "starting training for", "epochs completed in", "validating ", "results saved to"),
    priority=30,
)
