"""When a run saves: intervals between completed saves, their lengths, and the one that is under way. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from watcher.daemon.gaps import Gaps

NUMBERS = ("started_at", "completed_at", "completed_step", "ends_told")


@dataclass(slots=True)
class Saves:
    """`ends_told`: the log has told the end of a save. Until it does, the step after a start says that it is done.

    A save may print several starts and ends; all at one step are one save.
    """

    interval: Gaps = field(default_factory=Gaps)
    length: Gaps = field(default_factory=Gaps)
    started_at: float | None = None  # begun then and not completed
    completed_at: float | None = None
    completed_step: int | None = None
    ends_told: bool = False

    def started(self, at: float) -> None:
        if self.started_at is None:
            self.started_at = at

    def ended(self, at: float, step: int | None, attempt_at: float | None) -> None:
        """An end was told at `step`, in the attempt that began at `attempt_at`."""
        if not self.ends_told:  # what steps implied until now were starts of saves that went on beside them
            self.ends_told, self.interval, self.completed_at = True, Gaps(), None
        if self.started_at is not None:
            self.length.add(at - self.started_at)
        self._completed(at, step, attempt_at)

    def stepped(self, at: float, last_step: int | None, attempt_at: float | None) -> None:
        """A step line comes after `last_step`."""
        if self.started_at is not None and not self.ends_told:
            self._completed(at, last_step, attempt_at)

    def new_attempt(self) -> None:
        self.started_at = None

    def _completed(self, at: float, step: int | None, attempt_at: float | None) -> None:
        before = self.completed_at
        if before is not None and attempt_at is not None and before >= attempt_at and step != self.completed_step:
            self.interval.add(at - before)
        self.started_at, self.completed_at, self.completed_step = None, at, step

    def dump(self) -> dict[str, Any]:
        numbers = {name: getattr(self, name) for name in NUMBERS}
        return {"interval": self.interval.values(), "length": self.length.values(), **numbers}

    @classmethod
    def load(cls, raw: dict[str, Any]) -> Saves:
        """Raises KeyError or TypeError."""
        numbers = {name: raw[name] for name in NUMBERS}
        return cls(interval=Gaps.of(raw["interval"]), length=Gaps.of(raw["length"]), **numbers)
