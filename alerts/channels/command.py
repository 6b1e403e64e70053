"""Any program of yours: the message of the webhook as JSON on its standard input, a few words in its environment.

Exit 0 = delivered; 64 or 65 (usage, bad data, as in sysexits.h) = never in this form; anything else = try again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from dataclasses import dataclass
from typing import IO

from pydantic import Field

from alerts._text import one_line
from alerts.channels._api import ChannelPlugin, ChannelSection
from alerts.channels._fit import encode
from alerts.channels.webhook import message
from alerts.notification import Notification, Outcome, Rejected, Retry, Sent

NEVER = frozenset({64, 65})
MAX_ENVIRONMENT = 2_000
MAX_SAID = 2_000  # bytes


class CommandSection(ChannelSection):
    """`argv`: program and arguments, no shell. `timeout_seconds`: then it and its children are killed."""

    argv: tuple[str, ...] = Field(min_length=1)
    timeout_seconds: float = Field(default=20.0, gt=0, le=25)


@dataclass(frozen=True, slots=True)
class Command:
    section: CommandSection

    def send(self, notification: Notification, minimal: bool = False) -> Outcome:
        name = os.path.basename(self.section.argv[0])
        given = {
            "RUNWATCH_KIND": notification.kind,
            "RUNWATCH_ACTION": notification.action,
            "RUNWATCH_KEY": notification.dedup_key,
            "RUNWATCH_SEVERITY": notification.severity.label,
            "RUNWATCH_RUN": notification.run or "",
            "RUNWATCH_TITLE": notification.title,
        }
        clean = {key: one_line(value, MAX_ENVIRONMENT) for key, value in given.items()}
        try:
            process = subprocess.Popen(
                self.section.argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                env={**os.environ, **clean}, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            return Retry(f"{name}: {error.strerror or type(error).__name__}")
        said = Tail(process.stderr)
        feeder = threading.Thread(target=_feed, args=(process, encode(message(notification, minimal))), daemon=True)
        feeder.start()
        try:
            process.wait(self.section.timeout_seconds)  # for the program alone: what it leaves behind may go on
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return Retry(f"{name}: still running after {self.section.timeout_seconds:g} s, killed")
        if process.returncode == 0:
            return Sent()
        text = f"{name}: exit {process.returncode}: {one_line(said.text(), 200)}".rstrip(": ")
        return Rejected(text) if process.returncode in NEVER else Retry(text)


class Tail:
    """The end of what a program says, however much that is and however long a child of it holds the pipe."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self._pipe, self._end = pipe, b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        if self._pipe is not None:
            with contextlib.suppress(OSError, ValueError), self._pipe as pipe:
                while chunk := os.read(pipe.fileno(), 65536):
                    self._end = (self._end + chunk)[-MAX_SAID:]

    def text(self) -> str:
        self._thread.join(0.5)
        return self._end.decode("utf-8", "replace")


def _feed(process: subprocess.Popen[bytes], body: bytes) -> None:
    """A program that does not read its input is no failure."""
    if process.stdin is not None:
        with contextlib.suppress(OSError), process.stdin as pipe:
            pipe.write(body)


PLUGIN = ChannelPlugin("command", CommandSection, Command)
