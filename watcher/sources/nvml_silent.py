"""Which GPUs of a node do not answer, since when, and which of them kill their reader: the others are read on. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

FIRST_LEAVE_SECONDS, LONGEST_LEAVE_SECONDS = 60.0, 600.0  # how long a GPU that kills its reader is left out
CAREFUL_SECONDS = 600.0  # after the last crash


@dataclass(frozen=True, slots=True)
class Silent:
    """`name`: its UUID, or `index N` of one that never told it. `seconds`: since it last answered.

    `kind`: stuck (no answer), crashed (left out) or unreadable (errors).
    """

    name: str
    index: int
    kind: str
    why: str
    seconds: float


class SilentGpus:
    """Times are monotonic seconds."""

    def __init__(self) -> None:
        self._answered_at: dict[str, float] = {}
        self._now: dict[str, tuple[int, str, str]] = {}

    def take(self, gpus: Iterable[Mapping[str, Any]], at: float) -> None:
        """A reading of all GPUs, as the child sends them; those without a UUID could never tell it."""
        self._now.clear()
        for gpu in gpus:
            key = gpu.get("uuid") or f"index {gpu['index']}"
            if gpu.get("state") == "unreadable":
                kind = "stuck" if gpu.get("stuck") else "crashed" if gpu.get("left_out") else "unreadable"
                self._now[key] = (gpu["index"], kind, str(gpu.get("error", "")))
                self._answered_at.setdefault(key, at)
            else:
                self._answered_at[key] = at

    def seconds(self, uuid: str, at: float) -> float | None:
        """Since it last answered; None where it does."""
        return at - self._answered_at[uuid] if uuid in self._now else None

    def worst(self, at: float, least_seconds: float) -> Silent | None:
        """The one that has been silent for longest; one that crashes is told at once."""
        silent = (Silent(key, *what, at - self._answered_at[key]) for key, what in self._now.items())
        told = [one for one in silent if one.kind == "crashed" or one.seconds >= least_seconds]
        return max(told, key=lambda one: one.seconds, default=None)


class Crashes:
    """After a crash the next child says where it is; the GPU that it dies of is left out for a growing while."""

    def __init__(self) -> None:
        self._at: int | None = None
        self._crashed_at: float | None = None
        self._until: dict[int, float] = {}
        self._pause: dict[int, float] = {}

    def request(self, now: float) -> bytes:
        """What to ask of the child."""
        self._at = None
        if self._crashed_at is None or now - self._crashed_at > CAREFUL_SECONDS:
            self._until.clear()
            self._pause.clear()
            return b"read\n"
        return " ".join(["read", "careful", *map(str, sorted(self.left_out(now)))]).encode() + b"\n"

    def reached(self, index: int) -> None:
        self._at = index

    def crashed(self, now: float) -> None:
        self._crashed_at = now
        if self._at is not None:
            pause = min(LONGEST_LEAVE_SECONDS, 2 * self._pause.get(self._at, FIRST_LEAVE_SECONDS / 2))
            self._pause[self._at], self._until[self._at] = pause, now + pause

    def left_out(self, now: float) -> Collection[int]:
        return [index for index, until in self._until.items() if now < until]
