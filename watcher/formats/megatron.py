"""Megatron-LM and Megatron-DeepSpeed: ` iteration 10/ 1000 | elapsed time per iteration (ms): 1380.0 | ... |`.

A record copied from a terminal is wrapped over several lines; the oldest layout has its TFLOPs a few lines later.
"""

from __future__ import annotations

import re
from dataclasses import replace

from watcher.events import LogEvent
from watcher.formats._api import Format, Held
from watcher.formats._pairs import fields, pairs
from watcher.formats._phases import phase_table

_HEAD = re.compile(r"(?:^|[|\]:\s])iteration\s{0,20}(\d{1,12})\s{0,3}/\s{0,20}(\d{1,12})\s{0,9}\|")
_REST = re.compile(
    r"^\s?(?:[\w ()./-]{1,40}:\s{0,20}[-+.\deE]+ \| )|^\s?iterations:|"
    r"(?:lm loss|grad norm|nan iterations|global batch size)\s?:"
)
_FLOPS = re.compile(r"Effective Tera Flops per GPU: ([\d.]{1,20})")
_EVALUATING = re.compile(r"Evaluating iter (\d{1,9})/(\d{1,9})")
_WORLD = re.compile(r"using world size: (\d{1,9})")
WAIT_LINES = 5

_phases = phase_table(
    ("startup", "start", r"using world size: \d|-{10} arguments -{10}"),
    ("training", "start", r"^training \.\.\.|\[before the start of training step\]"),
    ("training", "end", r"\[after training is done\]"),
    ("evaluation", "end", r"\bloss at (?:iteration \d+|the end of training)[^|]{0,80}\|"),
    ("evaluation", "start", r"^Evaluating on \d+ samples"),
    ("checkpoint", "start", r"saving checkpoint at iteration|scheduled an async checkpoint save at iteration"),
    ("checkpoint", "end", r"successfully saved checkpoint (?:at|from) iteration"),
    ("finished", "start", r"\[exiting program (?:at iteration|after|because)"),
)


class MegatronReader:
    def __init__(self) -> None:
        self._held: tuple[int, str, int] | None = None  # line, text so far, lines since
        self._evaluating = False
        self._mark: tuple[object, object] = (None, None)  # the last phase edge: two markers in a row tell one

    @property
    def busy(self) -> bool:
        return self._held is not None

    def feed(self, line: str, number: int) -> list[LogEvent]:
        head = _HEAD.search(line) if "iteration " in line else None
        if head is None:
            return self._between(line, number)
        out = self.flush()
        self._evaluating, self._mark = False, (None, None)
        if line.rstrip().endswith("|") and "consumed samples" in line:
            return [*out, _record(line, number)]
        self._held = (number, line, 0)
        return Held(out)

    def flush(self) -> list[LogEvent]:
        held, self._held = self._held, None
        return [] if held is None else [_record(held[1], held[0])]

    def _between(self, line: str, number: int) -> list[LogEvent]:
        out: list[LogEvent] = []
        if self._held is not None:
            first, text, age = self._held
            flops = _FLOPS.search(line)
            if flops:
                self._held = None
                return [replace(_record(text, first), tflops_per_gpu=float(flops[1]))]
            if not text.rstrip().endswith("|") and _REST.search(line) and len(text) < 4000:
                self._held = (first, f"{text.rstrip()} {line.strip()}", age + 1)
                wrapped_to_its_end = line.rstrip().endswith("|") and "consumed samples" in text
                return self.flush() if wrapped_to_its_end else Held()
            if age >= WAIT_LINES or ("consumed samples" in text):
                out += self.flush()
            else:
                self._held = (first, text, age + 1)
        evaluating = _EVALUATING.search(line) if "Evaluating iter" in line else None
        if evaluating:
            if not self._evaluating:
                out.append(LogEvent(event="phase", line=number, phase="evaluation", edge="start"))
            self._evaluating = True
            done, total = float(evaluating[1]), float(evaluating[2])
            out.append(LogEvent(event="progress", line=number, counter=done, counter_total=total))
        for event in self._new_marks(line, number):
            world = _WORLD.search(line)
            out.append(replace(event, world_size=int(world[1])) if world else event)
        return out

    def _new_marks(self, line: str, number: int) -> list[LogEvent]:
        events = [event for event in _phases(line, number) if (event.phase, event.edge) != self._mark]
        if events:
            self._mark = (events[0].phase, events[0].edge)
        return events


def _record(text: str, number: int) -> LogEvent:
    head = _HEAD.search(text)
    step, total = (int(head[1]), int(head[2])) if head else (None, None)
    found = pairs(text[head.end() :]) if head else pairs(text)
    return LogEvent(event="step", line=number, step=step, total_steps=total, **fields(found))


FORMAT = Format(
    "megatron",
    MegatronReader,
    hints=(
        "iteration ", "training ...", "[before the start", "[after training", "checkpoint", "[exiting program",
        "evaluating", "tera flops", "using world size", "arguments -", "loss at the end",
    ),
    priority=50,
)  # fmt: skip
