"""What systemd hears from a process that it started with `Type=notify` and `WatchdogSec=`.

A datagram never waits and never fails the process: where nobody listens, nothing is said.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_STATUS_CHARS = 200


@dataclass(slots=True)
class Systemd:
    """`address`: of the manager's socket, empty where there is none. `watchdog_seconds`: None where none is set."""

    address: str = ""
    watchdog_seconds: float | None = None
    _status: str = field(default="", init=False)

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> Systemd:
        """By what systemd puts into the environment. A watchdog that is meant for another process is not ours."""
        address = environ.get("NOTIFY_SOCKET", "")
        limit = environ.get("WATCHDOG_USEC", "")
        ours = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        return cls(address, int(limit) / 1e6 if ours and limit.isdecimal() and int(limit) > 0 else None)

    def ready(self, patience_seconds: float) -> None:
        """The service is up. `patience_seconds`: what may lie between two cycles that work; a shorter watchdog is
        lengthened to it, or a long interval would be taken for a hang."""
        lines = ["READY=1"]
        if self.watchdog_seconds is not None and self.watchdog_seconds < patience_seconds:
            lines.append(f"WATCHDOG_USEC={patience_seconds * 1e6:.0f}")
        self._send(*lines)

    def worked(self, status: str) -> None:
        """A cycle did what it should: the only thing that keeps the watchdog quiet."""
        self._send("WATCHDOG=1", *self._changed(status))

    def failed(self, status: str) -> None:
        """A cycle did not; when none does for long, systemd starts the process anew."""
        self._send(*self._changed(status))

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def _changed(self, status: str) -> list[str]:
        line = " ".join(status.split())[:MAX_STATUS_CHARS]
        if line == self._status:
            return []
        self._status = line
        return [f"STATUS={line}"]

    def _send(self, *lines: str) -> None:
        if not self.address or not lines:
            return
        name = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.sendto("\n".join(lines).encode(), name)
