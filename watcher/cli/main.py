"""`runwatch COMMAND ...`: finds the commands, turns typed errors into one readable line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence

import watcher.cli
from watcher import __version__
from watcher.cli._command import Command, UsageError


def commands() -> list[Command]:
    names = [m.name for m in pkgutil.iter_modules(watcher.cli.__path__) if m.name != "main" and m.name[0] != "_"]
    found = [importlib.import_module(f"watcher.cli.{name}").COMMAND for name in names]
    return sorted(found, key=lambda command: (command.order, command.name))


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="runwatch",
        description="Watches GPU training runs from outside and pages a person when one has stopped moving.",
    )
    parser.add_argument("--version", action="version", version=f"runwatch {__version__}")
    sub = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in commands():
        child = sub.add_parser(command.name, help=command.help, description=command.help)
        command.add_arguments(child)
        child.set_defaults(_execute=command.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point; answers the exit code."""
    args = build_parser().parse_args(argv)
    try:
        return int(args._execute(args))
    except UsageError as error:
        print(f"runwatch: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # a closed pager is no error
        return 1
    except KeyboardInterrupt:
        return 130
