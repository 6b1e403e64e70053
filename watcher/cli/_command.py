"""What a command is: found by a scan of this folder, so a new one is a new file."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass


class UsageError(Exception):
    """Shown as one line on standard error, exit code 2. May hold several lines (one per config error)."""


@dataclass(frozen=True, slots=True)
class Command:
    """`run` answers the exit code: 0 fine, 1 found or hit trouble, 2 usage or config. Heavy imports go inside it."""

    name: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    order: int = 50  # in the help
