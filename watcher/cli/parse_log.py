"""`runwatch parse-log FILE... [--json]`: what the watchdog understands of a log."""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from watcher.cli._command import Command, UsageError
from watcher.events import LogEvent

BLOCK_BYTES = 1 << 20
MAX_LINE_BYTES = 64 << 20  # an unended line beyond this is read as if it ended


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a training or kernel log, also gzipped")
    parser.add_argument("--json", action="store_true", help="one object an event, then a summary")
    parser.add_argument("--format", metavar="NAME", help="read with this format only")


def blocks(stream: IO[bytes]) -> Iterator[bytes]:
    """Blocks of whole lines (the last may lack its end)."""
    rest = b""
    while block := stream.read(BLOCK_BYTES):
        end = block.rfind(b"\n") + 1
        if not end and len(rest) + len(block) < MAX_LINE_BYTES:
            rest += block
            continue
        yield rest + (block[:end] or block)
        rest = block[end:] if end else b""
    if rest:
        yield rest


@contextmanager
def open_log(path: Path) -> Iterator[IO[bytes]]:
    """The log's bytes, gunzipped where its first bytes say so. Raises UsageError with the file's name."""
    try:
        file = path.open("rb")
        packed = file.peek(2)[:2] == b"\x1f\x8b"
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    with file:
        yield gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[misc]


class BrokenLogError(Exception):
    """The log could not be read to its end; what was read before has been told."""


def run(args: argparse.Namespace) -> int:
    from watcher.cli._log_account import Account
    from watcher.formats._api import load_formats
    from watcher.formats._summary import Summary

    if args.format is not None and args.format not in load_formats():
        raise UsageError(f"--format {args.format}: no such format; there are {', '.join(sorted(load_formats()))}")
    several = len(args.files) > 1
    every = Summary()
    troubled = False
    for path in args.files:
        account = Account(str(path))
        try:
            for event in read(path, args.format):
                account.add(event)
                every.add(event)
                if args.json:
                    print(_line(event.to_json(), path if several else None))
        except BrokenLogError as error:
            print(f"runwatch: {error}", file=sys.stderr)
            troubled = True
        troubled = troubled or account.summary.ends == "crashed"
        if args.json:
            print(_line(account.summary.to_json(), path if several else None))
        else:
            print(*account.lines(), sep="\n")
    if several and args.json:
        print(_line(every.to_json(), None))
    return 1 if troubled else 0


def read(path: Path, form: str | None) -> Iterator[LogEvent]:
    """The events of a log as its lines are read. Raises BrokenLogError after them where the file breaks off."""
    from watcher.formats._reader import LogReader

    reader, number = LogReader(only=form), 1
    failure: Exception | None = None
    try:
        with open_log(path) as stream:
            for block in blocks(stream):
                yield from reader.feed_block(block, number)
                number += block.count(b"\n")
    except (OSError, EOFError, zlib.error) as error:
        failure = error
    yield from reader.flush()
    if failure is not None:
        raise BrokenLogError(f"{path} could be read up to line {number} only: {failure}")


def _line(item: dict[str, Any], path: Path | None) -> str:
    return json.dumps(({"file": str(path)} | item) if path else item, ensure_ascii=False)


COMMAND = Command("parse-log", "show what the watchdog understands of a log", _add_arguments, run, order=40)
