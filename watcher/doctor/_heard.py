"""Nodes that push are heard by the running daemon alone: it is asked what they told it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from watcher.clock import Clock
from watcher.daemon.answer import Answer, AnswerSource, Note
from watcher.daemon.pushed import Pushed
from watcher.snapshot import SnapshotError, parse_snapshot


class HeardByDaemon(AnswerSource):
    """In the place of `pushed`. `fetch`: what /api/pushed answers; raises where no daemon does."""

    def __init__(self, pushed: Pushed, fetch: Callable[[], Any], clock: Clock) -> None:
        self._pushed, self._fetch, self._clock = pushed, fetch, clock

    async def __aenter__(self) -> HeardByDaemon:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    async def ask_all(self, note: Note | None = None) -> Sequence[Answer]:
        try:
            told = {one["node"]: one for one in (await asyncio.to_thread(self._fetch))["pushed"]}
            unknown = "the daemon that runs does not expect it to push: is it started anew since its file was changed?"
        except Exception as error:  # noqa: BLE001 - whatever keeps it from answering, the other checks are worth having
            told, unknown = {}, f"it pushes, and what it told is not known: {error}"
        return [self._answer(node, told.get(node), unknown) for node in self._pushed.expected]

    def _answer(self, node: str, told: Any, unknown: str) -> Answer:
        now = self._clock.time()
        if told is None:
            return Answer(node, now, None, unknown)
        if told.get("error") is not None:
            return Answer(node, now, None, str(told["error"]))
        try:
            return Answer(node, now, parse_snapshot(told.get("snapshot")))
        except SnapshotError as error:
            return Answer(node, now, None, str(error))
