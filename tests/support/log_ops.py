"""Plays file operations on a scratch folder over virtual time: create, append, truncate, rename, links."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from watcher.clock import FakeClock

Operation = Mapping[str, Any]


def apply(folder: Path, operation: Operation) -> None:
    """One operation. Paths in it are relative to the folder."""

    def place(key: str) -> Path:
        return folder / str(operation[key])

    match operation["op"]:
        case "create":
            place("path").write_bytes(b"")
        case "append":
            text = operation.get("text")
            data = str(text).encode() if text is not None else base64.b64decode(operation["b64"])
            with place("path").open("ab") as file:
                file.write(data)
        case "append_repeat":
            with place("path").open("ab") as file:
                file.write(base64.b64decode(operation["b64_unit"]) * int(operation["times"]))
        case "truncate":
            os.truncate(place("path"), int(operation.get("size", 0)))
        case "rename":
            place("from").rename(place("to"))
        case "copy":
            shutil.copyfile(place("from"), place("to"))
        case "mkdir":
            place("path").mkdir(parents=True)
        case "symlink":
            place("path").symlink_to(operation["target"])
        case "symlink_replace":
            new = folder / ".new-link"
            new.symlink_to(operation["target"])
            new.rename(place("path"))
        case "remove":
            place("path").unlink()
        case other:
            raise ValueError(f"unknown operation {other!r}")


def play(
    operations: Iterable[Operation],
    folder: Path,
    clock: FakeClock,
    poll: Callable[[float], None],
    poll_times: Iterable[float],
) -> None:
    """Runs the operations (each with its `t`) and calls `poll(t)` at its times, all in order; `t` counts from now.

    At the same time operations come before the poll.
    """
    begun_at = clock.time()
    waiting = sorted(operations, key=lambda operation: float(operation["t"]))
    for at in sorted(poll_times):
        while waiting and float(waiting[0]["t"]) <= at:
            clock.now = begun_at + float(waiting[0]["t"])
            apply(folder, waiting.pop(0))
        clock.now = begun_at + at
        poll(at)
