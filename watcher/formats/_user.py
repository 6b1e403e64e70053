"""The user's own patterns as a reader: asked before the built-in formats."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, Protocol

from watcher.events import ErrorKind, LogEvent, PhaseName
from watcher.formats._patterns import Pattern, compile_pattern
from watcher.formats._skim import patterns_search

MAX_MESSAGE = 500
_WHOLE = frozenset(f.name for f in fields(LogEvent) if f.type == "int | None")


class PhaseLike(Protocol):
    @property
    def name(self) -> PhaseName: ...
    @property
    def start(self) -> str: ...
    @property
    def end(self) -> str | None: ...
    @property
    def max_seconds(self) -> float | None: ...


class ErrorLike(Protocol):
    @property
    def pattern(self) -> str: ...
    @property
    def kind(self) -> ErrorKind: ...


class PatternsLike(Protocol):
    """`patterns:` of a log, as watcher.config.logs has checked it."""

    @property
    def step(self) -> tuple[str, ...]: ...
    @property
    def phases(self) -> tuple[PhaseLike, ...]: ...
    @property
    def errors(self) -> tuple[ErrorLike, ...]: ...
    @property
    def finished(self) -> str | None: ...


class UserReader:
    """Raises PatternError when it is made with a pattern that cannot be used; `feed` never raises."""

    def __init__(self, patterns: PatternsLike) -> None:
        self._steps = [compile_pattern(text) for text in patterns.step]
        self._errors = [(compile_pattern(error.pattern), error.kind) for error in patterns.errors]
        self._finished = compile_pattern(patterns.finished) if patterns.finished is not None else None
        self._phases = [
            (compile_pattern(p.start), compile_pattern(p.end) if p.end is not None else None, p)
            for p in patterns.phases
        ]  # fmt: skip
        self._open: set[int] = set()
        phases = [text for p in patterns.phases for text in (p.start, p.end) if text is not None]
        finished = [] if patterns.finished is None else [patterns.finished]
        # for blocks of lines; None: each line must be read
        self.search = patterns_search([*patterns.step, *phases, *(e.pattern for e in patterns.errors), *finished])

    def feed(self, line: str, number: int) -> list[LogEvent]:
        edges = self._phase_edges(line, number)
        events = list(edges)
        for pattern, kind in self._errors:
            if (match := pattern.search(line)) is not None:
                events.append(_error(match, kind, line, number))
                break
        for pattern in self._steps if not edges else ():  # `saving checkpoint at step 400` is no record of step 400
            if (match := pattern.search(line)) is not None and (step := _step(pattern, match, number)) is not None:
                events.append(step)
                self._open.clear()  # a step ends every phase, said or not
                break
        if self._finished is not None and self._finished.search(line) is not None:
            events.append(LogEvent(event="phase", line=number, phase="finished", edge="start"))
        return events

    def flush(self) -> list[LogEvent]:
        return []

    def _phase_edges(self, line: str, number: int) -> list[LogEvent]:
        """An end is only one after its start; a phase that starts twice has begun anew."""
        out = []
        for index, (start, end, phase) in enumerate(self._phases):
            if index in self._open and end is not None and end.search(line) is not None:
                self._open.discard(index)
                out.append(LogEvent(event="phase", line=number, phase=phase.name, edge="end"))
            elif start.search(line) is not None:
                self._open.add(index)
                out.append(
                    LogEvent(
                        event="phase", line=number, phase=phase.name, edge="start", max_seconds=phase.max_seconds
                    )
                )  # fmt: skip
        return out


def _step(pattern: Pattern, match: Any, number: int) -> LogEvent | None:
    names = pattern.groupindex or {"step": 1}
    values: dict[str, Any] = {}
    for name, group in names.items():
        text = match.group(group)
        if name == "host":
            values[name] = text
        elif text is not None and (value := _number(text, whole=name in _WHOLE)) is not None:
            values[name] = value
    if values.get("step") is None:
        return None
    if (milliseconds := values.pop("step_milliseconds", None)) is not None:
        values["step_seconds"] = milliseconds / 1000
    return LogEvent(event="step", line=number, format="user", **values)


def _number(text: str, *, whole: bool) -> int | float | None:
    """`1,024`, `1_024`, `2.5e-3`, `nan`; None where it is no number, or no whole one where that is wanted."""
    try:
        value = float(text.strip().replace(",", "").replace("_", ""))
    except ValueError:
        return None
    if not whole:
        return value
    if not math.isfinite(value) or abs(value) >= 2**53 or value != int(value):
        return None
    return int(value)


def _error(match: Any, kind: ErrorKind, line: str, number: int) -> LogEvent:
    groups = match.groupdict()
    rank = _number(groups.get("rank") or "", whole=True)
    message = groups.get("message") or line.strip()
    return LogEvent(
        event="error", line=number, format="user", kind=kind, host=groups.get("host"),
        rank=int(rank) if rank is not None else None, message=message[:MAX_MESSAGE],
    )  # fmt: skip
