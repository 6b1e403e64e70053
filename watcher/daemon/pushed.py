"""Agents that send by themselves, because nobody can reach them: they are answered for as if they had been asked."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from types import TracebackType

from watcher.clock import Clock
from watcher.daemon.answer import Answer, AnswerSource, Note
from watcher.daemon.inbox import Inbox
from watcher.snapshot import Snapshot, dump_snapshot
from watcher.tokens import NodeTokens

log = logging.getLogger(__name__)
SILENT_INTERVALS, SILENT_SECONDS = 3.0, 10.0  # of the agent: then its silence is a failure
FIRST_INTERVAL_SECONDS = 10.0  # of an agent that was never heard
MAX_NAMED = 1_000
REASONS = ("busy", "no_master", "no_node", "slow", "token", "unknown_node", "unreadable")


class Pushed(AnswerSource):
    """`nodes()`: who is expected to send. `refused`: what was not taken, by reason, for the metrics."""

    def __init__(self, nodes: Callable[[], Collection[str]], clock: Clock, tokens: NodeTokens) -> None:
        self.nodes, self.clock, self.tokens = nodes, clock, tokens
        self.taken_count = 0
        self.refused: Counter[str] = Counter()
        self._inboxes: dict[str, Inbox] = {}
        self._began = clock.monotonic()
        self._troubles: dict[tuple[str, str], str] = {}

    async def __aenter__(self) -> Pushed:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    async def ask_all(self, note: Note | None = None) -> Sequence[Answer]:
        """Each node's last snapshot as old as it is now, or since when it is silent."""
        nodes = self.nodes()
        self._inboxes = {node: inbox for node, inbox in self._inboxes.items() if node in nodes}
        answers = []
        for node in nodes:
            if (answer := self._answer(node)) is not None:
                answers.append(answer)
                if note is not None:
                    note(dump_snapshot(answer.snapshot) if answer.snapshot is not None else b"", answer)
        return answers

    def _answer(self, node: str) -> Answer | None:
        """None: it may yet send, the daemon has just begun."""
        now, inbox = self.clock.monotonic(), self.inbox(node)
        latest = inbox.latest
        silent = now - (inbox.came_at if latest is not None else self._began)
        interval = latest.interval_seconds if latest is not None else FIRST_INTERVAL_SECONDS
        if inbox.pushes or silent <= SILENT_INTERVALS * interval + SILENT_SECONDS:
            told = inbox.told(now)
            return Answer(node, self.clock.time(), told) if told is not None else None
        said = "no push" if latest is not None else "no push since the daemon began,"
        error = f"{said} from {node} for {silent:.0f} s: does runwatch-agent run there, does its push.url lead here?"
        if (trouble := next((text for (who, _), text in self._troubles.items() if who == node), None)) is not None:
            error = f"no push from {node} was taken for {silent:.0f} s: {trouble}"
        return Answer(node, self.clock.time(), None, error)

    def inbox(self, node: str) -> Inbox:
        return self._inboxes.setdefault(node, Inbox()) if node in self.nodes() else Inbox()

    def take(self, node: str, snapshot: Snapshot, at: float) -> Inbox:
        """`at`: monotonic, when its first byte came; its ages are of then."""
        inbox = self.inbox(node)
        inbox.take(snapshot, at)
        self.taken_count += 1
        for place in [place for place in self._troubles if place[0] == node]:
            del self._troubles[place]
            log.info("push of %s is taken again", node)
        return inbox

    def refuse(self, node: str, reason: str, text: str) -> None:
        """Counted always, said once until it goes well or is refused for another reason."""
        self.refused[reason] += 1
        known = node in self.nodes()
        if self._troubles.get((node, reason)) == text or (not known and len(self._troubles) >= MAX_NAMED):
            return
        self._troubles[node, reason] = text
        log.warning("push of %s refused: %s", ascii(node) if not known else node, text)
