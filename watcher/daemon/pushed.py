"""Agents that send by themselves, because nobody can reach them: they are answered for as if they had been asked."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from types import TracebackType

from watcher.clock import Clock
from watcher.daemon.aged import aged
from watcher.daemon.answer import Answer, AnswerSource, Note
from watcher.daemon.inbox import Inbox
from watcher.snapshot import Snapshot, dump_snapshot
from watcher.tokens import NodeTokens

log = logging.getLogger(__name__)
SILENT_INTERVALS, SILENT_SECONDS = 3.0, 10.0  # of the agent: then its silence is a failure
FIRST_INTERVAL_SECONDS = 10.0  # of an agent that was never heard
LONGEST_INTERVAL_SECONDS = 300.0  # that an agent can be set to
MAX_NAMED = 1_000
REASONS = ("busy", "no_master", "no_node", "slow", "token", "unknown_node", "unreadable")


class Pushed(AnswerSource):
    """`nodes()`: who is expected to send, asked once a cycle. `refused`: what was not taken, by reason."""

    def __init__(self, nodes: Callable[[], Collection[str]], clock: Clock, tokens: NodeTokens) -> None:
        self.clock, self.tokens = clock, tokens
        self._nodes = nodes
        self._inboxes: dict[str, Inbox] = {}
        self._expect()
        self.taken_count = 0
        self.refused: Counter[str] = Counter()
        self._troubles: dict[tuple[str, str], str] = {}

    async def __aenter__(self) -> Pushed:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    async def ask_all(self, note: Note | None = None) -> Sequence[Answer]:
        """Each node's last snapshot as old as it is now, or since when it is silent."""
        self._expect()
        answers = []
        for node, inbox in self._inboxes.items():
            if (answer := self._answer(node, inbox)) is not None:
                answers.append(answer)
                if note is not None:
                    note(dump_snapshot(answer.snapshot) if answer.snapshot is not None else b"", answer)
        return answers

    def _expect(self) -> None:
        now = self.clock.monotonic()
        self._inboxes = {node: self._inboxes.get(node) or Inbox(came_at=now) for node in self._nodes()}

    @property
    def expected(self) -> Collection[str]:
        return list(self._inboxes)

    def heard(self) -> Iterator[Answer]:
        """What each node said last, without events and without taking anything from the next cycle."""
        for node, inbox in list(self._inboxes.items()):
            now, latest = self.clock.monotonic(), inbox.latest
            if latest is None or not self._is_live(inbox, now):
                yield Answer(node, self.clock.time(), None, self._silence(node, inbox, now))
            else:
                yield Answer(
                    node, self.clock.time(), aged(latest, now - inbox.came_at).model_copy(update={"events": ()})
                )

    def _answer(self, node: str, inbox: Inbox) -> Answer | None:
        """None: it may yet send, it has not been expected for long."""
        now = self.clock.monotonic()
        if inbox.pushes or self._is_live(inbox, now):
            told = inbox.told(now)
            return Answer(node, self.clock.time(), told) if told is not None else None
        return Answer(node, self.clock.time(), None, self._silence(node, inbox, now))

    def _is_live(self, inbox: Inbox, now: float) -> bool:
        interval = inbox.latest.interval_seconds if inbox.latest is not None else FIRST_INTERVAL_SECONDS
        if not 0 < interval <= LONGEST_INTERVAL_SECONDS:  # nothing that a node says hides its silence
            interval = FIRST_INTERVAL_SECONDS
        return now - inbox.came_at <= SILENT_INTERVALS * interval + SILENT_SECONDS

    def _silence(self, node: str, inbox: Inbox, now: float) -> str:
        silent = now - inbox.came_at
        trouble = next((text for (who, _), text in list(self._troubles.items()) if who == node), None)
        if trouble is not None:
            return f"no push from {node} was taken for {silent:.0f} s: {trouble}"
        said = "no push" if inbox.latest is not None else "no push yet"
        return f"{said} from {node} for {silent:.0f} s: does runwatch-agent run there, does its push.url lead here?"

    def inbox(self, node: str) -> Inbox | None:
        """None: this node is not expected to send."""
        return self._inboxes.get(node)

    def take(self, node: str, inbox: Inbox, snapshot: Snapshot, at: float) -> None:
        """`at`: monotonic, when its first byte came; its ages are of then."""
        inbox.take(snapshot, at)
        self.taken_count += 1
        for place in [place for place in self._troubles if place[0] == node]:
            del self._troubles[place]
            log.info("push of %s is taken again", node)

    def refuse(self, node: str, reason: str, text: str) -> None:
        """Counted always, said once until it goes well or is refused for another reason."""
        self.refused[reason] += 1
        known = node in self._inboxes
        if self._troubles.get((node, reason)) == text or (not known and len(self._troubles) >= MAX_NAMED):
            return
        self._troubles[node, reason] = text
        log.warning("push of %s refused: %s", ascii(node) if not known else node, text)
