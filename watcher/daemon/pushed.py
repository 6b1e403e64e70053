"""Agents that send by themselves, because nobody can reach them: an inbox that answers as if they had been asked."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from alerts.secret import SecretError
from watcher.clock import Clock
from watcher.daemon.answer import Answer, AnswerSource, Note
from watcher.daemon.collect import MAX_BYTES, check_node
from watcher.snapshot import MAX_EVENTS, Snapshot, SnapshotError, dump_snapshot, parse_snapshot
from watcher.tokens import NodeTokens

log = logging.getLogger(__name__)
PATH = "/push"
BODY_REAL_SECONDS = 15.0  # from the first to the last byte
SILENT_INTERVALS, SILENT_SECONDS = 3.0, 10.0  # of the agent: then its silence is a failure
KEPT = 32  # pushes of one node between two cycles
AT_ONCE = 64
MAX_NAMED = 1_000


class Pushed(AnswerSource):
    """`nodes()`: who is expected to send. `refused`: requests that were not taken, by reason, for the metrics."""

    def __init__(self, nodes: Callable[[], Iterable[str]], clock: Clock, tokens: NodeTokens) -> None:
        self._nodes, self._clock, self._tokens = nodes, clock, tokens
        self._instance = secrets.token_hex(8)  # another one knows nothing of what was taken before
        self._inbox: dict[str, list[Answer]] = {}
        self._last: dict[str, tuple[float, float]] = {}  # node -> received at (monotonic), interval of the agent
        self._began = clock.monotonic()
        self._told: set[str] = set()
        self._busy = 0
        self.refused: Counter[str] = Counter()

    async def __aenter__(self) -> Pushed:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    async def ask_all(self, note: Note | None = None) -> Sequence[Answer]:
        """What came since the last time. A node that has just been heard and has not sent again answers nothing."""
        answers = []
        for node in self._nodes():
            answer = self._answer(node)
            if answer is None:
                continue
            answers.append(answer)
            if note is not None:
                note(dump_snapshot(answer.snapshot) if answer.snapshot is not None else b"", answer)
        return answers

    def _answer(self, node: str) -> Answer | None:
        came = self._inbox.pop(node, None)
        if came:
            return _together(came)
        now = self._clock.monotonic()
        last, interval = self._last.get(node, (self._began, 10.0))
        silent = now - last
        if silent <= SILENT_INTERVALS * interval + SILENT_SECONDS:
            return None
        error = f"{node} has sent nothing for {silent:.0f} s: does runwatch-agent run there, does push.url lead here?"
        return Answer(node, self._clock.time(), None, error)

    async def receive(self, request: Request) -> Response:
        """POST of a snapshot. Answers up to where its events were taken, and which process took them."""
        node = request.headers.get("x-runwatch-node", "")[:255]
        if (refusal := self._refusal(node, request)) is not None:
            return refusal
        if self._busy >= AT_ONCE:
            return JSONResponse({"error": "too many at once"}, 503, {"Retry-After": "5"})
        self._busy += 1
        try:
            async with asyncio.timeout(BODY_REAL_SECONDS):
                body = await _body(request)
            snapshot = parse_snapshot(json.loads(body))
            check_node(node, snapshot.node, f"what {node} sent")
        except (SnapshotError, ValueError, RecursionError, zlib.error) as error:
            return self._refuse(422, "unreadable", f"{node}: {str(error)[:200]}")
        except (TimeoutError, ClientDisconnect):
            return self._refuse(408, "slow", f"{node}: the body did not come within {BODY_REAL_SECONDS:g} s")
        finally:
            self._busy -= 1
        self._take(Answer(node, self._clock.time(), snapshot))
        return JSONResponse({"taken": f"{snapshot.stream}:{snapshot.next_seq}", "daemon": self._instance})

    def _take(self, answer: Answer) -> None:
        assert answer.snapshot is not None
        self._last[answer.node] = (self._clock.monotonic(), answer.snapshot.interval_seconds)
        self._inbox.setdefault(answer.node, []).append(answer)
        if len(self._inbox[answer.node]) > KEPT:
            self._inbox[answer.node] = [_together(self._inbox[answer.node])]

    def _refusal(self, node: str, request: Request) -> Response | None:
        if not node:
            return self._refuse(400, "no_node", "the header X-Runwatch-Node is missing: is this a runwatch agent?")
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        try:
            good = scheme.lower() == "bearer" and self._tokens.speaks_for(node, given.strip())
        except SecretError as error:
            log.error("no push can be taken: %s", error)
            return self._refuse(503, "no_master", "the daemon cannot read its master_file; its log says why")
        if not good:
            return self._refuse(401, "token", f"the token does not speak for node {node}: see `runwatch node-token`")
        if node not in set(self._nodes()):
            return self._refuse(403, "unknown_node", f"{node} is not a node of a run here that may push")
        return None

    def _refuse(self, status: int, reason: str, text: str) -> Response:
        """Said once in the log for each text, counted always."""
        self.refused[reason] += 1
        if text not in self._told and len(self._told) < MAX_NAMED:
            self._told.add(text)
            log.warning("push refused status=%d: %s", status, text)
        return JSONResponse({"error": text}, status)


def _together(answers: Sequence[Answer]) -> Answer:
    """Several of one node as one: the last readings, the events of all, as old as they are when the last one came."""
    last = answers[-1]
    assert last.snapshot is not None
    events: list[Any] = []
    rejected: list[str] = []
    lost = 0
    for answer in answers:
        snapshot = answer.snapshot
        assert snapshot is not None
        later = last.received_at - answer.received_at
        events += [e.model_copy(update={"age_seconds": e.age_seconds + later}) for e in snapshot.events]
        lost += snapshot.lost_events
        rejected += snapshot.rejected
    lost += max(0, len(events) - MAX_EVENTS)
    whole: Snapshot = last.snapshot.model_copy(
        update={"events": tuple(events[-MAX_EVENTS:]), "lost_events": lost, "rejected": tuple(rejected[-100:])}
    )
    return Answer(last.node, last.received_at, whole)


async def _body(request: Request) -> bytes:
    """At most MAX_BYTES, also of what a compressed body grows to. Raises SnapshotError."""
    packed = request.headers.get("content-encoding", "") == "gzip"
    opened = zlib.decompressobj(16 + zlib.MAX_WBITS) if packed else None
    body = bytearray()
    async for chunk in request.stream():
        body += opened.decompress(chunk, MAX_BYTES + 1 - len(body)) if opened is not None else chunk
        if len(body) > MAX_BYTES or (opened is not None and opened.unconsumed_tail):
            raise SnapshotError(f"the snapshot is larger than {MAX_BYTES >> 20} MiB")
    return bytes(body)
