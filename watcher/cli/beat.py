"""`runwatch beat`: progress without a log. The agent follows the file like any other log."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from watcher.cli._command import Command, UsageError

DEFAULT_FILE = "runwatch-beat.jsonl"
MAX_BYTES = 16 << 20  # then the file begins anew


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--step", type=int, required=True, metavar="N", help="the step that is done")
    parser.add_argument("--total", type=int, metavar="N", help="the steps that there will be")
    parser.add_argument(
        "--file",
        type=Path,
        metavar="PATH",
        help=f"the progress file to append to, named in the agent's `logs:`; default: $RUNWATCH_BEAT_FILE, "
        f"else {DEFAULT_FILE} in the present folder",
    )


def _run(args: argparse.Namespace) -> int:
    from watcher.clock import SystemClock
    from watcher.formats.beat import beat_line

    if args.step < 0 or (args.total is not None and args.total < 0):
        raise UsageError("--step and --total count from 0")
    path = args.file or Path(os.environ.get("RUNWATCH_BEAT_FILE") or DEFAULT_FILE)
    line = beat_line(args.step, args.total, SystemClock().time()).encode()
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if os.fstat(fd).st_size > MAX_BYTES:
                os.ftruncate(fd, 0)
            os.write(fd, line)  # in one piece: ranks that share the file do not cut into each other's lines
        finally:
            os.close(fd)
    except OSError as error:
        print(f"runwatch: {path} cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    return 0


COMMAND = Command("beat", "say that a step is done: progress without a log", _add_arguments, _run, order=40)
