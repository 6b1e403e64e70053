"""What a check is: a module of this folder with `CHECK = Check(order, of_run=...)` or `of_watchdog=...`."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import watcher.doctor
from detectors.frame import Frame
from detectors.telemetry import NodeView
from watcher.config.daemon import DaemonConfig, RunSection
from watcher.daemon.answer import Answer
from watcher.doctor._found import Found
from watcher.events import LogEvent

Level = Literal["ok", "note", "warn", "fail"]
NOT_CHECKS = frozenset({"gather"})


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was looked at. `advice`: what to do, where something is not as it should be."""

    level: Level
    topic: str
    text: str
    advice: str = ""


@dataclass(slots=True)
class LogFound:
    """What one log of the run holds. `node` None: read here. `phases`: counted starts."""

    path: str
    node: str | None = None
    format: str | None = None
    lines: int = 0
    steps: int = 0
    last_line_age_seconds: float | None = None
    error: str | None = None
    phases: Counter[str] = field(default_factory=Counter)
    last_step: LogEvent | None = None
    timeouts_seconds: list[float] = field(default_factory=list)  # of collectives, as the job printed them


@dataclass(frozen=True, slots=True)
class RunScene:
    """One run: who tells of it, the frame of this moment with what was learnt so far, what its logs hold."""

    found: Found
    frame: Frame
    detectors: Mapping[str, Any]  # name -> the config in force
    logs: Sequence[LogFound]

    @property
    def section(self) -> RunSection:
        return self.found.section

    @property
    def answering(self) -> list[NodeView]:
        return [node for node in self.frame.nodes if node.reachable]

    @property
    def gpus(self) -> int:
        return sum(len(node.gpus) for node in self.frame.nodes)


@dataclass(frozen=True, slots=True)
class Scene:
    """All that was gathered. `pages`: channel -> None where the test page was sent, else why not."""

    config: DaemonConfig
    now: float
    answers: Mapping[str, Answer]
    runs: Sequence[RunScene]
    notes: Sequence[str]  # of the config
    daemon: str | None  # None: a daemon answers, else why none does
    pages: Mapping[str, str | None] | None = None  # None: no page was to be sent


@dataclass(frozen=True, slots=True)
class Check:
    order: int
    of_run: Callable[[Scene, RunScene], Iterable[Line]] | None = None
    of_watchdog: Callable[[Scene], Iterable[Line]] | None = None


def load_checks() -> list[Check]:
    """All checks in their order."""
    names = [m.name for m in pkgutil.iter_modules(watcher.doctor.__path__) if m.name[0] != "_"]
    found = [importlib.import_module(f"watcher.doctor.{name}").CHECK for name in names if name not in NOT_CHECKS]
    return sorted(found, key=lambda check: check.order)


def listed(names: Iterable[str], shown: int = 4) -> str:
    """ "a, b, c and 5 more"."""
    every = sorted(names)
    more = f" and {len(every) - shown} more" if len(every) > shown else ""
    return ", ".join(every[:shown]) + more
