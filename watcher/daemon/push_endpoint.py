"""POST /push: a node shows its own token and sends its snapshot. All that it can hold or make us hold is bounded."""

from __future__ import annotations

import asyncio
import json
import zlib
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from alerts.secret import SecretError
from watcher.daemon.collect import MAX_BYTES, check_node
from watcher.daemon.inbox import Inbox
from watcher.daemon.pushed import Pushed
from watcher.snapshot import Snapshot, SnapshotError, dump_snapshot, parse_snapshot

PATH = "/push"
HEARD = "/api/pushed"
BODY_REAL_SECONDS = 15.0  # from the first to the last byte
AT_ONCE = 64
WAIT_SECONDS = 5
MAX_NODE_LETTERS = 255
MAX_STREAM_LETTERS = 100


class _No(Exception):
    """Refused: status, a word for the metrics, and what the other side should know."""

    def __init__(self, status: int, reason: str, text: str) -> None:
        super().__init__(text)
        self.status, self.reason = status, reason


class PushEndpoint:
    """Answers 200 with `taken`, up to where the events are here; 409 with `resume`, from where they are missing."""

    def __init__(self, pushed: Pushed) -> None:
        self.pushed = pushed
        self._busy = 0

    async def receive(self, request: Request) -> Response:
        node = unquote(request.headers.get("x-runwatch-node", ""))[:MAX_NODE_LETTERS]
        at = self.pushed.clock.monotonic()
        try:
            inbox = self._admit(node, request)
            since = request.query_params.get("since")
            if not inbox.follows(since):
                return JSONResponse({"error": "earlier events are missing here", "resume": inbox.place}, 409)
            if inbox.is_full or self._busy >= AT_ONCE:
                raise _No(429 if inbox.is_full else 503, "busy", "too much at once, send it later")
            self._busy += 1
            try:
                snapshot = await _snapshot(node, request)
            finally:
                self._busy -= 1
        except _No as no:
            self.pushed.refuse(node, no.reason, str(no))
            wait = {"Retry-After": str(WAIT_SECONDS)} if no.reason == "busy" else {}
            return JSONResponse({"error": str(no)}, no.status, wait)
        self.pushed.take(node, inbox, snapshot, at)
        return JSONResponse({"taken": inbox.place})

    def heard(self, request: Request) -> Response:
        """GET /api/pushed, for `runwatch doctor`: what each node said last, or why it is not heard."""
        rows = (
            f'{{"node": {json.dumps(answer.node)}, "snapshot": {dump_snapshot(answer.snapshot).decode()}}}'
            if answer.snapshot is not None
            else json.dumps({"node": answer.node, "error": answer.error})
            for answer in self.pushed.heard()
        )
        return Response(f'{{"pushed": [{", ".join(rows)}]}}', media_type="application/json")

    def _admit(self, node: str, request: Request) -> Inbox:
        if not node:
            raise _No(400, "no_node", "the header X-Runwatch-Node is missing: is this a runwatch agent?")
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        try:
            good = scheme.lower() == "bearer" and self.pushed.tokens.speaks_for(node, given.strip())
        except SecretError as error:
            raise _No(503, "no_master", f"the daemon cannot check any token: {error}") from None
        if not good:
            raise _No(
                401, "token",
                f"the token does not speak for node {node!r}: give agent.push.token_file the one that "
                f"`runwatch node-token` prints for it",
            )  # fmt: skip
        if (inbox := self.pushed.inbox(node)) is None:
            raise _No(
                403, "unknown_node",
                f"{node!r} is not expected to push: compare agent.node with runs[].nodes and daemon.agents.push",
            )  # fmt: skip
        return inbox


def push_routes(pushed: Pushed) -> list[Route]:
    endpoint = PushEndpoint(pushed)
    return [Route(PATH, endpoint.receive, methods=["POST"]), Route(HEARD, endpoint.heard)]


async def _snapshot(node: str, request: Request) -> Snapshot:
    """Raises _No."""
    try:
        async with asyncio.timeout(BODY_REAL_SECONDS):
            body = await _body(request)
        snapshot = parse_snapshot(json.loads(body))
        check_node(node, snapshot.node, f"what {node} sent")
        if len(snapshot.stream) > MAX_STREAM_LETTERS or not 0 <= snapshot.next_seq < 2**53:
            raise SnapshotError("stream or next_seq is no place in a ring of events")
    except (TimeoutError, ClientDisconnect):
        raise _No(408, "slow", f"the body did not come within {BODY_REAL_SECONDS:g} s") from None
    except (SnapshotError, ValueError, RecursionError, zlib.error) as error:
        said = str(error) if isinstance(error, SnapshotError) else f"it is no snapshot ({type(error).__name__})"
        raise _No(422, "unreadable", said[:300]) from None
    return snapshot


async def _body(request: Request) -> bytes:
    """At most MAX_BYTES, also of what a compressed body grows to. Raises SnapshotError."""
    packed = request.headers.get("content-encoding", "") == "gzip"
    opened = zlib.decompressobj(16 + zlib.MAX_WBITS) if packed else None
    body, came = bytearray(), 0
    async for chunk in request.stream():
        came += len(chunk)
        body += opened.decompress(chunk, MAX_BYTES + 1 - len(body)) if opened is not None else chunk
        if max(len(body), came) > MAX_BYTES or (opened is not None and opened.unconsumed_tail):
            raise SnapshotError(f"the snapshot is larger than {MAX_BYTES >> 20} MiB")
    return bytes(body)
