"""What came of asking about one node once, and whoever can be asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from watcher.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Answer:
    """A snapshot, or one readable line why there is none. `received_at`: unix seconds of the daemon.

    `part`: what of the node is told: all that an agent knows, or its GPUs alone.
    """

    node: str
    received_at: float
    snapshot: Snapshot | None = None
    error: str | None = None
    part: Literal["agent", "gpus"] = "agent"


Note = Callable[[bytes, Answer], None]  # the body as it came, for the recording


class AnswerSource(AbstractAsyncContextManager["AnswerSource"], Protocol):
    """Tells of nodes: agents that are asked, agents that push, exporters, Prometheus. Never raises for one node."""

    async def ask_all(self, note: Note | None = None) -> Sequence[Answer]:
        """At most one answer a node: a snapshot, or why there is none."""
