"""The `logs:` section of either file: which logs to follow, and the user's own patterns for them."""

from __future__ import annotations

import codecs
from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from watcher.events import ErrorKind, LogEvent, PhaseName
from watcher.formats._api import load_formats
from watcher.formats._patterns import PatternError, compile_pattern

# what a named group of a step pattern may be called: the numbers that a line can tell of a step
_NOT_IN_A_LINE = ("line", "logged_at", "max_seconds", "counter", "counter_total", "throughput")
STEP_GROUPS: tuple[str, ...] = (
    *(f.name for f in fields(LogEvent) if f.type in ("int | None", "float | None") and f.name not in _NOT_IN_A_LINE),
    "step_milliseconds",
)
ERROR_GROUPS = ("rank", "host", "message")


def _usable(text: str) -> str:
    compile_pattern(text)
    return text


def _step_groups(text: str) -> str:
    pattern = compile_pattern(text)
    names = set(pattern.groupindex)
    if unknown := sorted(names - set(STEP_GROUPS) - {"host"}):
        raise PatternError(f"unknown group name {unknown[0]!r}; known are {', '.join(STEP_GROUPS)} and host")
    if "step" not in names and (names or pattern.groups != 1):
        raise PatternError("the pattern needs a group named step, as in `step=(?P<step>[0-9]+)`")
    return text


def _error_groups(text: str) -> str:
    if unknown := sorted(set(compile_pattern(text).groupindex) - set(ERROR_GROUPS)):
        raise PatternError(f"unknown group name {unknown[0]!r}; known are {', '.join(ERROR_GROUPS)}")
    return text


def _known_format(name: str) -> str:
    known = [n for n in load_formats() if n != "user"]
    if name not in known:
        raise ValueError(f"no log format is called {name!r}; known are {', '.join(sorted(known))}")
    return name


def _encoding(name: str) -> str:
    try:
        plain = "\r\n0aZ".encode(name)
    except (LookupError, ValueError, TypeError):
        plain = b""
    if plain != b"\r\n0aZ":
        raise ValueError(f"{name!r} is no encoding of lines that end with a plain newline byte; utf-8 and latin-1 are")
    return codecs.lookup(name).name


AnyPattern = Annotated[str, AfterValidator(_usable)]
StepPattern = Annotated[str, AfterValidator(_step_groups)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PhasePatterns(_Section):
    """A phase from its first line to its last. Without `end` the next step ends it; nothing holds it open for ever."""

    name: PhaseName
    start: AnyPattern
    end: AnyPattern | None = None
    max_seconds: float | None = Field(default=None, gt=0)


class ErrorPattern(_Section):
    """`kind` is what the error counts as. Groups: rank, host, message (default: the whole line)."""

    pattern: Annotated[str, AfterValidator(_error_groups)]
    kind: ErrorKind = "other"


def _as_error(value: Any) -> Any:
    return {"pattern": value} if isinstance(value, str) else value


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class LogPatterns(_Section):
    """The user's own patterns, asked before the built-in formats. One group without a name in `step` is the step."""

    step: Annotated[tuple[StepPattern, ...], BeforeValidator(_as_list)] = Field(default=(), max_length=20)
    phases: tuple[PhasePatterns, ...] = Field(default=(), max_length=20)
    errors: tuple[Annotated[ErrorPattern, BeforeValidator(_as_error)], ...] = Field(default=(), max_length=50)
    finished: AnyPattern | None = None

    @model_validator(mode="after")
    def _says_something(self) -> LogPatterns:
        if not (self.step or self.phases or self.errors or self.finished):
            raise ValueError(f"no pattern is given; known are {', '.join(type(self).model_fields)}")
        return self


class LogConfig(_Section):
    """One log, or many behind a pattern.

    path: may hold `*`, `?`, `[...]` and `**` (any depth); `%N` stands for the node's name. In `runs[].logs` of a run
    that Slurm tells of also Slurm's `%j`, `%x`, `%A`, `%a`, `%u`; `%stdout` alone is what the job writes to, where the
    daemon reads it. format: only this one (default: found by what the lines are). from_start: read a log that is
    already there from its first line, not from
    its last few MiB. tail: who reads it, the agent of each node, or the daemon where the file is shared.
    """

    path: str = Field(min_length=1, max_length=4_096)
    format: Annotated[str, AfterValidator(_known_format)] | None = None
    patterns: LogPatterns | None = None
    encoding: Annotated[str, AfterValidator(_encoding)] = "utf-8"
    from_start: bool = False
    tail: Literal["agent", "daemon"] = "agent"

    @model_validator(mode="before")
    @classmethod
    def _plain_path(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _absolute(self) -> LogConfig:
        if self.path == "%stdout" and self.tail == "daemon":
            return self
        if not self.path.startswith("/"):
            raise ValueError(f"path: {self.path!r} is relative; give the whole path, as /data/logs/*.out")
        return self
