"""How it goes with sending to the daemon, for metrics and the status line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class PushState:
    """`error`: why nothing gets through, None while it does or was not tried yet."""

    error: str | None = None
    taken_count: int = 0
    failed_count: int = 0
