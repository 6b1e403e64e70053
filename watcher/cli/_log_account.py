"""What `parse-log` tells a person of one log: how it ends, its cause, errors, phases, and the rate as a small plot."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from watcher.events import LogEvent
from watcher.formats._summary import Summary

WIDTH = 60
BARS = "▁▂▃▄▅▆▇█"
_DIGITS = re.compile(r"[\d.:]+")
MAX_SHOWN_ERRORS = 12
MAX_POINTS = 200_000
# what is plotted, best first: (field, unit, whether more is better)
_RATES = (
    ("tokens_per_second", "tokens/s"), ("samples_per_second", "samples/s"), ("tflops_per_gpu", "TFLOP/s per GPU"),
    ("iterations_per_second", "steps/s"), ("step_seconds", "s/step"),
)  # fmt: skip


class Account:
    """`add` every event of a log, then `lines`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.summary = Summary()
        self._points: dict[str, list[float]] = {field: [] for field, _ in _RATES}
        self._losses: list[float] = []
        self._phases: Counter[tuple[str, str]] = Counter()
        self._errors: list[LogEvent] = []
        self._total: int | None = None

    def add(self, event: LogEvent) -> None:
        self.summary.add(event)
        if event.event == "step":
            for field, points in self._points.items():
                value = getattr(event, field)
                if value is not None and math.isfinite(value) and len(points) < MAX_POINTS:
                    points.append(value)
            if event.loss is not None and len(self._losses) < MAX_POINTS:
                self._losses.append(event.loss)
            self._total = event.total_steps if event.total_steps is not None else self._total
        elif event.event == "phase":
            self._phases[(str(event.phase), str(event.edge))] += 1
        elif event.event == "error" and len(self._errors) < 10 * MAX_SHOWN_ERRORS:
            self._errors.append(event)

    def lines(self) -> Iterator[str]:
        summary = self.summary
        yield f"{self._name}: {summary.format or 'no known format'}, {_many(summary.steps, 'record')}{self._span()}"
        yield f"  ends      {_ENDS[summary.ends]}"
        if (cause := summary.root_cause) is not None:
            yield f"  cause     {_error(cause)}"
        yield from self._other_errors(cause)
        yield from self._rate()
        if self._losses:
            yield f"  loss      {_short(self._losses[0])} at first, {_short(self._losses[-1])} at last"
        if self._phases:
            told = ", ".join(f"{phase} {edge} x{count}" for (phase, edge), count in sorted(self._phases.items()))
            yield f"  phases    {told}"

    def _span(self) -> str:
        first, last = self.summary.first_step, self.summary.last_step
        if last is None:
            return ""
        return f", step {first} to {last}" + (f" of {self._total}" if self._total is not None else "")

    def _other_errors(self, cause: LogEvent | None) -> Iterator[str]:
        groups: dict[tuple[object, ...], list[LogEvent]] = {}
        for error in self._errors:
            if error is not cause:
                alike = _DIGITS.sub("#", error.message or "")[:60]
                groups.setdefault((error.kind, error.cascade, alike), []).append(error)
        shown = list(groups.values())[:MAX_SHOWN_ERRORS]
        for group in shown:
            yield f"  {'follows' if group[0].cascade else 'error':<9} {_error(group[0], group)}"
        hidden = self.summary.errors - sum(map(len, shown)) - (cause is not None)
        if hidden > 0:
            yield f"            and {_many(hidden, 'more error')}"

    def _rate(self) -> Iterator[str]:
        field, unit = next(((f, u) for f, u in _RATES if len(self._points[f]) >= 2), (None, ""))
        if field is None:
            return
        points = self._points[field]
        yield f"  {unit:<9} {plot(points)}"
        low, middle, high = min(points), median(points), max(points)
        yield f"            lowest {_short(low)}, median {_short(middle)}, highest {_short(high)}"


def plot(points: list[float], width: int = WIDTH) -> str:
    """The medians of `width` stretches as bars from the lowest to the highest of them."""
    count = min(width, len(points))
    edges = [len(points) * i // count for i in range(count + 1)]
    medians = [median(points[a:b]) for a, b in pairwise(edges)]
    low, high = min(medians), max(medians)
    span = high - low or 1.0
    return "".join(BARS[min(7, int((value - low) / span * 8))] if high > low else BARS[3] for value in medians)


_ENDS = {
    "running": "running, as far as this log goes", "completed": "completed", "crashed": "crashed",
    "stopped": "stopped (cancelled, preempted or at a time limit)", "unknown": "nothing says how",
}  # fmt: skip


def _error(error: LogEvent, group: Sequence[LogEvent] = ()) -> str:
    where = [f"line {error.line}"] if len(group) < 2 else [f"{len(group)} times from line {error.line}"]
    ranks = sorted({e.rank for e in (group or [error]) if e.rank is not None})
    where += [f"rank{'s' if len(ranks) > 1 else ''} {' '.join(map(str, ranks[:16]))}"] if ranks else []
    where += [error.host] if error.host else []
    return f"{error.kind}, {', '.join(where)}: {(error.message or '')[:160]}"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _short(value: float) -> str:
    return f"{value:.4g}"
