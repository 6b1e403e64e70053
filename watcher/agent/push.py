"""Sends snapshots to the daemon from a node that nobody can reach. The ring of events is the queue.

The daemon says up to where it has the events, and the agent sends from there: nothing is lost or doubled when either is
started anew. A daemon that is away costs nothing: readings are never kept, the next attempt sends those of then.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from watcher.agent.app import Agent
from watcher.agent.push_state import PushState
from watcher.aside import aside
from watcher.snapshot import dump_snapshot

log = logging.getLogger(__name__)
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, LONGEST_ASKED_SECONDS = 5.0, 60.0, 300.0
ABORT_REAL_SECONDS = 1.0  # a connection that is cut ends its request well within this
BEHIND = 409  # the daemon lacks events before those that were sent, and says from where on
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply:
    """`status` 0: there was none, and `error` says why."""

    status: int
    body: bytes = b""
    retry_after: str | None = None
    error: str = ""


class Post(Protocol):
    """Blocking, in a thread: a name server or a peer may hang. Raises nothing of the network."""

    deadline_real_seconds: float

    def connect(self) -> str | None:
        """Why there is no connection. One that is open stays."""

    def send(self, body: bytes, since: str | None) -> Reply: ...

    def abort(self) -> None:
        """Ends what hangs, from another thread."""

    def close(self) -> None: ...


class Pusher:
    """`run` for ever beside the agent's cycles."""

    def __init__(self, agent: Agent, post: Post) -> None:
        self._agent, self._clock, self._post = agent, agent.clock, post
        self._since: str | None = None
        self._pause = FIRST_PAUSE_SECONDS
        self._cycle = asyncio.Event()
        self._hanging: asyncio.Future[Any] | None = None
        self.state = agent.push = PushState()

    def close(self) -> None:
        self._post.close()

    def wake(self) -> None:
        """A cycle has ended: there are fresh readings."""
        self._cycle.set()

    async def run(self) -> None:
        pause: float | None = None
        while True:
            if pause is not None:
                await self._clock.sleep(pause)
            else:
                await self._fresh()
            try:
                pause = await self.push()
            except Exception as error:  # whatever it is, the next attempt may do better
                log.exception("push failed")
                pause = self._failed(f"{error!r}"[:300], None)

    async def _fresh(self) -> None:
        """The end of a cycle; one that hangs is worth telling as well."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._clock.real_seconds(2 * self._agent.config.interval_seconds)):
                await self._cycle.wait()
        self._cycle.clear()

    async def push(self) -> float | None:
        """One attempt; how long to wait before the next in seconds, None: until there are fresh readings."""
        if self._hanging is not None and not self._hanging.done():
            return self._failed("an earlier request still hangs: does the name server answer?", None)
        self._hanging = None
        try:
            for _ in range(2):
                if (error := await self._timed(self._post.connect)) is not None:
                    return self._failed(error, None)
                reply = await self._send()
                if reply.status != BEHIND:
                    break
                self._since = _place(reply.body, "resume")
        except TimeoutError:
            return self._failed("the daemon takes too long: it is slow, or the network drops what is sent", None)
        if reply.status == 200 and (taken := _place(reply.body, "taken")) is not None:
            self._took(taken)
            return None
        return self._failed(reply.error or _said(reply), reply.retry_after)

    async def _send(self) -> Reply:
        """Made when the connection stands, so that the ages in it are of the moment in which it is sent."""
        body, since = dump_snapshot(self._agent.snapshot(self._since)), self._since
        return await self._timed(lambda: self._post.send(body, since))

    async def _timed(self, work: Callable[[], T]) -> T:
        """Raises TimeoutError where it does not end in time; then its connection is cut."""
        future = aside(work)
        done, _ = await asyncio.wait({future}, timeout=self._post.deadline_real_seconds)
        if done:
            return future.result()
        self._post.abort()
        done, _ = await asyncio.wait({future}, timeout=ABORT_REAL_SECONDS)
        if done:
            future.exception()  # it ends because it was cut
        else:
            self._hanging = future
        raise TimeoutError

    def _took(self, taken: str) -> None:
        if self.state.error is not None:
            log.info("push gets through again")
        self._since, self.state.error, self._pause = taken, None, FIRST_PAUSE_SECONDS
        self.state.taken_count += 1
        self._agent.asked_at = self._clock.time()

    def _failed(self, error: str, retry_after: str | None) -> float:
        self.state.failed_count += 1
        if self.state.error != error:
            log.warning("push failed: %s", error)
        self.state.error = error
        pause, self._pause = self._pause, min(LONGEST_PAUSE_SECONDS, 2 * self._pause)
        return max(_seconds(retry_after), pause) * random.uniform(1.0, 1.5)  # not all nodes at once


def _place(body: bytes, key: str) -> str | None:
    try:
        value = json.loads(body)[key]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return value if isinstance(value, str) and len(value) <= 200 else None


def _said(reply: Reply) -> str:
    try:
        text = str(json.loads(reply.body)["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        text = "is this a runwatch daemon that takes pushes (daemon.agents.push)?"
    return f"the daemon answers HTTP {reply.status}: {text}"[:300]


def _seconds(text: str | None) -> float:
    return min(float(text), LONGEST_ASKED_SECONDS) if text is not None and text.isascii() and text.isdigit() else 0.0
