"""Sends snapshots to the daemon from a node that nobody can reach. The ring of events is the queue.

What the daemon has taken is what it says; a daemon that was started anew gets the whole ring again and drops what it
knows. A daemon that is away costs nothing: readings are never kept, the next attempt sends those of then.
"""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import logging
import random
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from alerts.secret import SecretError, secret_file
from watcher.agent.app import Agent
from watcher.aside import aside
from watcher.config.agent import PushSection
from watcher.snapshot import dump_snapshot
from watcher.tls import advice, client_context
from watcher.tokens import lines_of

log = logging.getLogger(__name__)
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, LONGEST_ASKED_SECONDS = 5.0, 60.0, 300.0
MAX_REPLY_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Reply:
    """`status` 0: there was none, and `error` says why."""

    status: int
    body: bytes = b""
    retry_after: str | None = None
    error: str = ""


Post = Callable[[bytes], Reply]


class Pusher:
    """`run` for ever beside the agent's cycles. `error`: why nothing gets through, None while it does."""

    def __init__(self, agent: Agent, section: PushSection, post: Post | None = None) -> None:
        """Raises TlsError where the CA file cannot be used."""
        self._agent, self._clock = agent, agent.clock
        self._post = post if post is not None else HttpPost(section, agent.config.node)
        self._deadline = section.timeout_seconds
        self._since: str | None = None
        self._daemon: str | None = None  # the process that took what was taken
        self._pause = FIRST_PAUSE_SECONDS
        self._sending: asyncio.Future[Reply] | None = None
        self.error: str | None = None
        self.taken_at: float | None = None  # unix seconds
        self.taken_count = self.failed_count = 0

    async def run(self) -> None:
        while True:
            await self._clock.sleep(await self.push())

    async def push(self) -> float:
        """One attempt; how long to wait for the next, seconds."""
        reply = await self._send()
        if reply.status == 200 and self._took(reply.body):
            return self._agent.config.interval_seconds
        self.failed_count += 1
        error = reply.error or _said(reply)
        if self.error is None:
            log.warning("push failed: %s", error)
        self.error = error
        pause, self._pause = self._pause, min(LONGEST_PAUSE_SECONDS, 2 * self._pause)
        asked = _seconds(reply.retry_after)
        return max(asked or 0.0, pause * random.uniform(0.75, 1.25))

    async def _send(self) -> Reply:
        """Never a second one while the first still hangs."""
        if self._sending is None:
            body = dump_snapshot(self._agent.snapshot(self._since))
            self._sending = aside(lambda: self._post(body))
        await asyncio.wait({self._sending}, timeout=2 * self._clock.real_seconds(self._deadline) + 1.0)
        if not self._sending.done():
            return Reply(0, error="the connection hangs: a request has not come to an end")
        done, self._sending = self._sending, None
        return done.result()

    def _took(self, body: bytes) -> bool:
        try:
            answer = json.loads(body)
            taken, daemon = str(answer["taken"]), str(answer["daemon"])
        except (ValueError, KeyError, TypeError):
            return False
        if self.error is not None:
            log.info("push gets through again")
        if self._daemon not in (None, daemon) and self._since is not None:
            self._since = None  # it was started anew: what the one before had taken may be lost with it
        else:
            self._since = taken
        self._daemon, self.error, self._pause = daemon, None, FIRST_PAUSE_SECONDS
        self.taken_at, self.taken_count = self._clock.time(), self.taken_count + 1
        self._agent.asked_at = self.taken_at
        return True


class HttpPost:
    """One request a connection; in a thread, for a name server or a peer may hang."""

    def __init__(self, section: PushSection, node: str) -> None:
        self._section, self._node = section, node
        self._token = secret_file(section.token_file)
        parts = urlsplit(section.url)
        self._host, self._port, self._secure = parts.hostname or "", parts.port, parts.scheme == "https"
        self._tls: ssl.SSLContext | None = client_context(section.ca_file) if self._secure else None

    def __call__(self, body: bytes) -> Reply:
        seconds = self._section.timeout_seconds
        connection: http.client.HTTPConnection
        if self._secure:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=seconds, context=self._tls)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=seconds)
        try:
            for token in lines_of(self._token):
                reply = self._try(connection, body, token)
                if reply.status != 401:
                    break
            return reply
        except SecretError as error:
            return Reply(0, error=str(error))
        except (OSError, http.client.HTTPException) as error:
            url = self._section.url
            said = advice(error, url, "agent.push.ca_file") or f"{url}: {error or type(error).__name__}"
            return Reply(0, error=said[:300])
        finally:
            connection.close()

    def _try(self, connection: http.client.HTTPConnection, body: bytes, token: str) -> Reply:
        headers = {
            "Authorization": f"Bearer {token}",
            "X-Runwatch-Node": self._node,
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
        }
        connection.request("POST", "/push", gzip.compress(body, 1), headers)
        with connection.getresponse() as response:
            return Reply(response.status, response.read(MAX_REPLY_BYTES), response.headers.get("Retry-After"))


def _said(reply: Reply) -> str:
    try:
        text = str(json.loads(reply.body)["error"])
    except (ValueError, KeyError, TypeError):
        text = "is this a runwatch daemon?"
    return f"the daemon answers HTTP {reply.status}: {text}"[:300]


def _seconds(text: str | None) -> float | None:
    return min(float(text), LONGEST_ASKED_SECONDS) if text is not None and text.isdigit() else None
