"""Lets whoever waits for a call end it: sockets that the call opened are shut, so that its thread comes back."""

from __future__ import annotations

import contextlib
import socket
import threading
from contextvars import ContextVar


class Line:
    """The sockets of one attempt. Once hung up, any further socket is shut as soon as it is added."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._down = False

    def add(self, one: socket.socket) -> None:
        with self._lock:
            self._sockets.append(one)
            down = self._down
        if down:
            self.hang_up()

    def hang_up(self) -> None:
        with self._lock:
            self._down = True
            sockets, self._sockets = self._sockets, []
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


_current: ContextVar[Line | None] = ContextVar("line", default=None)


def use(line: Line) -> None:
    """Sockets that this thread opens from now on belong to the line."""
    _current.set(line)


def opened(one: socket.socket | None) -> None:
    """A channel says so of each socket it opens."""
    line = _current.get()
    if line is not None and one is not None:
        line.add(one)
