"""What a whole log comes to: how far it got, what broke it first, and how it ends. Pure; fed event by event."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from watcher.events import LogEvent

Ends = Literal["running", "completed", "crashed", "stopped", "unknown"]
STOPPED = ("slurm_cancelled", "slurm_time_limit")
# what Slurm and the kernel know explains these, although it is printed later
EXPLAINED_BY = {"oom_host": ("other",), "node_fail": ("nccl_timeout", "nccl_error", "cuda_error", "other")}
STEPS_THAT_SURVIVE = 3  # records after an error that show that it did not end the run
MAX_ERRORS = 10_000


@dataclass(slots=True)
class Attempt:
    """One launch, as far as the log tells them apart."""

    errors: list[LogEvent] = field(default_factory=list)
    steps: int = 0
    steps_since_error: int = 0
    training_over: bool = False
    finished: bool = False
    stop_asked: bool = False
    evaluating: bool = False
    last: LogEvent | None = None  # the last record with a step


class Summary:
    """`add` every event in order, then ask."""

    def __init__(self) -> None:
        self.attempts = [Attempt()]
        self.steps = self.errors = 0
        self.first_step: int | None = None
        self.last_step: int | None = None
        self.formats: Counter[str] = Counter()

    def add(self, event: LogEvent) -> None:
        attempt = self.attempts[-1]
        if event.event == "step":
            self._step(event, attempt)
        elif event.event == "error":
            self.errors += 1
            attempt.steps_since_error = 0
            attempt.stop_asked = attempt.stop_asked or _asks_to_stop(event)
            if len(attempt.errors) < MAX_ERRORS:
                attempt.errors.append(event)
        elif event.event == "phase" and event.phase == "startup" and event.edge == "start":
            if attempt.steps or attempt.errors:
                self.attempts.append(Attempt())
        elif event.event == "phase" and event.phase == "evaluation":
            attempt.evaluating = event.edge == "start"
        elif event.event == "phase" and event.phase == "finished":
            attempt.finished = True
        elif event.event == "phase" and event.phase == "training" and event.edge == "end":
            attempt.training_over = True

    def _step(self, event: LogEvent, attempt: Attempt) -> None:
        self.steps += 1
        attempt.steps += 1
        attempt.steps_since_error += 1
        attempt.evaluating = False
        self.formats[event.format or "?"] += 1
        if event.step is not None:
            self.first_step = event.step if self.first_step is None else self.first_step
            self.last_step = event.step
            attempt.last = event

    @property
    def root_cause(self) -> LogEvent | None:
        """The first error in time that is no consequence, in the last attempt that has errors."""
        for attempt in reversed(self.attempts):
            if attempt.errors:
                return _first_cause(attempt.errors)
        return None

    @property
    def ends(self) -> Ends:
        attempt = self.attempts[-1]
        if not attempt.steps and not attempt.errors and len(self.attempts) > 1:
            return "running"  # a restart that has not shown anything yet
        if attempt.stop_asked and (attempt.finished or attempt.training_over):
            return "stopped"
        if attempt.finished:
            return "completed"
        if attempt.errors and attempt.steps_since_error < STEPS_THAT_SURVIVE:
            return _ended_by(attempt.errors)
        if attempt.training_over or (_reached_total(attempt.last) and not attempt.evaluating):
            return "completed"
        return "running" if attempt.steps or self.steps else "unknown"

    @property
    def format(self) -> str | None:
        """The format of most records, or None."""
        return self.formats.most_common(1)[0][0] if self.formats else None

    def to_json(self) -> dict[str, Any]:
        """The promised summary object, unknown fields left out."""
        root = self.root_cause
        out: dict[str, Any] = {
            "event": "summary", "format": self.format, "steps": self.steps, "first_step": self.first_step,
            "last_step": self.last_step, "errors": self.errors,
            "root_cause": None if root is None else _cause_json(root), "ends": self.ends,
        }  # fmt: skip
        return {key: value for key, value in out.items() if value is not None}


def _cause_json(event: LogEvent) -> dict[str, Any]:
    out = {"line": event.line, "kind": event.kind, "rank": event.rank, "host": event.host, "message": event.message}
    return {key: value for key, value in out.items() if value is not None}


def _first_cause(errors: list[LogEvent]) -> LogEvent:
    causes = [error for error in errors if not error.cascade] or errors
    first = min(causes, key=lambda error: error.line)
    for kind, explained in EXPLAINED_BY.items():
        if first.kind in explained:
            first = next((error for error in errors if error.kind == kind), first)
    return first


def _ended_by(errors: list[LogEvent]) -> Ends:
    """Crashed, or stopped where somebody or a limit asked for it before anything broke."""
    if all(error.kind in ("xid", "gpu_lost") for error in errors):
        return "unknown"  # the kernel's log tells of the node, not of the run
    first = _first_cause(errors)
    asked = first.kind in STOPPED or (first.message or "").startswith("KeyboardInterrupt")
    return "stopped" if asked else "crashed"


def _asks_to_stop(event: LogEvent) -> bool:
    text = (event.message or "").lower()
    return event.kind == "other" and ("signal 15" in text or "sigterm" in text or "preemption" in text)


def _reached_total(last: LogEvent | None) -> bool:
    return last is not None and last.total_steps is not None and last.step is not None and last.step >= last.total_steps
