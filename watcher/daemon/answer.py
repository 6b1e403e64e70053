"""What came of asking one agent once."""

from __future__ import annotations

from dataclasses import dataclass

from watcher.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Answer:
    """A snapshot, or one readable line why there is none. `received_at`: unix seconds of the daemon."""

    node: str
    received_at: float
    snapshot: Snapshot | None = None
    error: str | None = None
