"""Decides which progress bars are records: a bar that repeats the step of a record beside it is none."""

from __future__ import annotations

from dataclasses import fields, replace

from watcher.events import LogEvent

NEAR_PARTS = 6  # how far apart the two may stand
MAX_TOTALS = 100
HOLD_PARTS = 3  # how long a bar waits for the record that it may repeat


class BarGate:
    """Holds each bar for a moment. Once a file has records with a step of their own, other bars are mere progress; so
    are bars within an evaluation, unless their length is one that a training bar had."""

    def __init__(self, bars: frozenset[str]) -> None:
        self._bars = bars
        self._held: LogEvent | None = None
        self._age = 0
        self._record_step: int | None = None
        self._since_record = NEAR_PARTS + 1
        self._records = 0
        self._evaluating = False
        self._totals: set[int | None] = set()  # lengths of training bars

    @property
    def busy(self) -> bool:
        """True while the next lines matter although they may hold nothing."""
        return self._held is not None

    def pass_on(self, events: list[LogEvent]) -> list[LogEvent]:
        """The events of one part, without bars that repeat a record; may hold one back and release an older one."""
        if not events and self._held is None:
            self._since_record += 1
            return events
        self._since_record += 1
        self._age += 1
        out: list[LogEvent] = []
        for event in events:
            if event.phase == "evaluation":
                self._evaluating = event.edge == "start"
            if event.event != "step":
                out.append(event)
            elif event.format in self._bars:
                self._bar(event, out)
            else:
                self._record(event, out)
        if self._held is not None and self._age > HOLD_PARTS:
            out += self.flush()
        return out

    def flush(self) -> list[LogEvent]:
        held, self._held = self._held, None
        if held is None:
            return []
        if self._records >= 2 and held.step is not None:
            return [_progress(held)]
        return [held]

    def _bar(self, event: LogEvent, out: list[LogEvent]) -> None:
        if self._evaluating and event.total_steps not in self._totals:
            out.append(_progress(event))
            return
        self._evaluating = False
        if len(self._totals) < MAX_TOTALS:
            self._totals.add(event.total_steps)
        if event.step is not None and event.step == self._record_step and self._since_record <= NEAR_PARTS:
            return
        held = self._held
        if held is not None and _same(held, event) and held.line != event.line:
            event = _merged(held, event)  # one step told in two lines
        else:
            out += self.flush()
        self._held, self._age = event, 0

    def _record(self, event: LogEvent, out: list[LogEvent]) -> None:
        self._evaluating = False
        if self._held is not None and self._held.step == event.step:
            self._held = None
        else:
            out += self.flush()
        if event.step is not None:
            self._records += 1
            self._record_step, self._since_record = event.step, 0
        out.append(event)


def _progress(bar: LogEvent) -> LogEvent:
    return replace(bar, event="progress", counter=bar.step, counter_total=bar.total_steps, step=None, total_steps=None)


def _same(first: LogEvent, second: LogEvent) -> bool:
    """Whether two lines tell one step: the second adds to the first and contradicts it in nothing."""
    for f in fields(LogEvent):
        one, other = getattr(first, f.name), getattr(second, f.name)
        if f.name not in ("line", "logged_at") and one is not None and other is not None and one != other:
            return False
    return first.step == second.step


def _merged(first: LogEvent, second: LogEvent) -> LogEvent:
    known = {f.name: getattr(first, f.name) for f in fields(LogEvent) if getattr(second, f.name) is None}
    return replace(second, **known)
