"""What a log format is to the rest of the program: a module of this folder with `FORMAT = Format(name, build, ...)`.

A reader gets every line that holds one of its hints, without colours and known prefixes (times, ranks, hosts; their
facts are put on its events). It answers events of that line, or of earlier ones (`line` = where the record began).
`step` counts over the whole run: where a counter restarts every epoch and the line tells the epoch's length, the step
is epochs done * length + position; `total_steps` is the run's total, never an epoch's. Evaluation and data bars are
`progress` (counter, counter_total), never steps. Phases: startup start = a new launch begins, training start / end,
evaluation start / end, checkpoint start / end, finished start = the run's own end marker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import watcher.formats
from detectors import plugins
from watcher.events import LogEvent


class FormatReader(Protocol):
    """State of one file. `feed` and `flush` never raise, whatever the line holds. While an attribute `busy` (where a
    reader has one) is true, it gets every line, with or without a hint."""

    def feed(self, line: str, number: int) -> list[LogEvent]: ...

    def flush(self) -> list[LogEvent]: ...


@dataclass(frozen=True, slots=True)
class Format:
    """`hints`: lower-case words of which at least one stands in every line that the format can use (a cheap
    prefilter); empty = every line. `priority`: where two formats claim one line, the higher wins (step or progress
    events of that line, or HELD). `bars`: its steps are progress bars or other echoes of the step, dropped
    where a record beside them has the same step, and mere progress once the file has records with a step of their
    own."""

    name: str
    build: Callable[[], FormatReader]
    hints: tuple[str, ...] = ()
    priority: int = 0
    bars: bool = False


class Held(list[LogEvent]):
    """Events of earlier lines (or none); this line belongs to a record still being gathered, so lower formats leave it
    alone."""


HELD = Held()


class Stateless:
    """A reader around a function that needs no memory of earlier lines."""

    def __init__(self, parse: Callable[[str, int], Iterable[LogEvent]]) -> None:
        self._parse = parse

    def feed(self, line: str, number: int) -> list[LogEvent]:
        return list(self._parse(line, number))

    def flush(self) -> list[LogEvent]:
        return []


def load_formats() -> dict[str, Format]:
    """All formats by name, highest priority first. Raises PluginError with the name of a broken one."""
    found = plugins.load(watcher.formats, Format, "log format", attribute="FORMAT")
    return dict(sorted(found.items(), key=lambda item: -item[1].priority))
