"""Writes what was seen as JSON lines that `replay` reads; files are bounded and turn over. Never stops the daemon."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import IO

from watcher.daemon.answer import Answer

log = logging.getLogger(__name__)


class Recorder:
    """FILE is the newest, FILE.1 the one before. A disk that is full is said once and tried again at the next turn."""

    def __init__(self, path: Path, file_bytes: int, keep_files: int) -> None:
        self.path, self._file_bytes, self._keep = path, file_bytes, keep_files
        self._file: IO[bytes] | None = None
        self._failed = False

    def note(self, body: bytes, answer: Answer) -> None:
        """One answer of an agent; `body` is what it sent."""
        whose = {"received_at": round(answer.received_at, 3), "node": answer.node}
        part = {} if answer.part == "agent" else {"part": answer.part}
        head = json.dumps(whose | part)[:-1].encode()
        if answer.snapshot is not None:
            line = head + b', "snapshot": ' + body.replace(b"\n", b" ") + b"}\n"
        else:
            line = head + b', "error": ' + json.dumps(answer.error or "").encode() + b"}\n"
        try:
            self._write(line)
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.warning("recording stopped path=%s err=%s", self.path, error.strerror)
            self._failed = True
            self.close()

    def flush(self) -> None:
        if self._file is not None:
            try:
                self._file.flush()
            except OSError:
                self.close()

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError:
                self._failed = True

    def _write(self, line: bytes) -> None:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._open()
        if self._file.tell() + len(line) > self._file_bytes and self._file.tell():
            self.close()
            self._turn()
            self._file = self.path.open("ab")
        self._file.write(line)

    def _open(self) -> IO[bytes]:
        """The end of a line that a killed process did not finish is made up for: the next one is whole."""
        file = self.path.open("a+b")
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        return file

    def _turn(self) -> None:
        for number in range(self._keep - 1, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{number}")
            newer = self.path if number == 1 else self.path.with_name(f"{self.path.name}.{number - 1}")
            if newer.exists():
                newer.replace(older)
        if self._keep == 1:
            self.path.unlink(missing_ok=True)
