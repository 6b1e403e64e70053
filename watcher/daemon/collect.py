"""Asks all agents at once. A failure is data: one readable line that says what to do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from types import TracebackType

import aiohttp

from alerts.secret import SecretError
from watcher.clock import Clock
from watcher.daemon.answer import Answer, AnswerSource, Note
from watcher.snapshot import SnapshotError, parse_snapshot
from watcher.tls import ClientTls, advice
from watcher.tokens import NodeTokens

MAX_BYTES = 8 << 20  # of one answer; a full ring of events has about 2 MiB
AT_ONCE = 1_024  # the others wait their turn, and their time begins with it: silent nodes take it from nobody
CHUNK = 1 << 16
NO_TOKENS = NodeTokens()
FAILURES = (
    aiohttp.ClientError,
    TimeoutError,
    OSError,
    ValueError,
    RecursionError,  # JSON that nests without end
    SnapshotError,
    SecretError,
)


class Collector(AnswerSource):
    """`addresses`: node -> http://HOST:PORT. Remembers per node up to where its events were read."""

    def __init__(
        self, addresses: Mapping[str, str], clock: Clock, tokens: NodeTokens = NO_TOKENS,
        timeout_seconds: float = 5.0, tls: ClientTls | None = None,
    ) -> None:  # fmt: skip
        self._addresses, self._clock, self._tokens, self._timeout = addresses, clock, tokens, timeout_seconds
        self._tls = tls
        self._since: dict[str, str] = {}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Collector:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=75),
            timeout=aiohttp.ClientTimeout(total=self._timeout),
            trust_env=False,
            auto_decompress=True,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask_all(self, note: Note | None = None) -> Sequence[Answer]:
        """One answer a node, in the order of `addresses`. `note` gets the body of each, for the recording."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def in_turn(node: str, url: str) -> Answer:
            async with gate:
                return await self._ask(node, url, note)

        return await asyncio.gather(*(in_turn(node, url) for node, url in self._addresses.items()))

    async def _ask(self, node: str, url: str, note: Note | None) -> Answer:
        body = b""
        try:
            body = await self._get(node, url)
            snapshot = parse_snapshot(json.loads(body))
            check_node(node, snapshot.node, f"the agent at {url}")
            answer = Answer(node, self._clock.time(), snapshot)
            self._since[node] = f"{snapshot.stream}:{snapshot.next_seq}"
        except FAILURES as error:
            answer = Answer(node, self._clock.time(), None, self._reason(url, error))
        if note is not None:
            note(body, answer)
        return answer

    async def _get(self, node: str, url: str) -> bytes:
        since = self._since.get(node)
        params = {"since": since} if since is not None else {}
        tokens = self._tokens.for_node(node)
        for token in tokens or [""]:  # two while they are being changed
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            body = await self._read(f"{url}/snapshot", params, headers, last=not token or token == tokens[-1])
            if body is not None:
                return body
        raise AssertionError("the last one answers or raises")

    async def _read(self, url: str, params: dict[str, str], headers: dict[str, str], last: bool) -> bytes | None:
        """None where the token is refused and another one is left."""
        assert self._session is not None, "use `async with Collector(...)`"
        async with self._session.get(
            url,
            params=params,
            headers=headers,
            allow_redirects=False,
            ssl=self._tls.context() if self._tls is not None else True,
        ) as response:
            if response.status == 401 and not last:
                return None
            if response.status != 200:
                raise SnapshotError(_status(response.status))
            body = bytearray()
            async for chunk in response.content.iter_chunked(CHUNK):
                body += chunk
                if len(body) > MAX_BYTES:
                    raise SnapshotError(f"the answer is larger than {MAX_BYTES >> 20} MiB")
            return bytes(body)

    def _reason(self, url: str, error: Exception) -> str:
        if (about_tls := advice(error, url, "daemon.agents.ca_file")) is not None:
            return about_tls
        match error:
            case SnapshotError() | SecretError():
                return str(error)
            case TimeoutError():
                return f"no answer from {url} within {self._timeout:g} s"
            case aiohttp.ClientConnectorDNSError():
                return f"the name in {url} is not known: set daemon.agents.addresses"
            case aiohttp.ClientConnectorError():
                return f"cannot connect to {url}: {error.strerror or error.os_error}; is runwatch-agent running there?"
            case json.JSONDecodeError() | UnicodeDecodeError() | RecursionError():
                return f"{url} does not answer JSON: is this a runwatch agent?"
            case aiohttp.ServerDisconnectedError() | ConnectionResetError() if url.startswith("http://"):
                return f"{url} hangs up: does the agent speak TLS? then set daemon.agents.ca_file or tls: true"
            case _:
                return f"{url}: {type(error).__name__} {error}"[:300]


def _status(status: int) -> str:
    if status in (401, 403):
        return f"the agent refuses the token (HTTP {status}): compare daemon.agents.token_file with agent.token_file"
    if status == 404:
        return "HTTP 404: something else than a runwatch agent listens there"
    return f"HTTP {status}"


def check_node(wanted: str, said: str, who: str) -> None:
    """A node speaks for itself alone; its name may lack its domain on one side. Raises SnapshotError."""
    short, _, domain = said.partition(".")
    wanted_short, _, wanted_domain = wanted.partition(".")
    if said != wanted and (short != wanted_short or (domain and wanted_domain)):
        raise SnapshotError(
            f"{who} says that it is node {said[:100]!r}, not {wanted!r}: compare agent.node there with the nodes of "
            f"the run and with daemon.agents.addresses"
        )
