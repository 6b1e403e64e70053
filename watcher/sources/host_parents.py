"""Who started whom. A node has thousands of processes, most of the kernel: each is asked once, not at every look."""

from __future__ import annotations

import os
from pathlib import Path

FORGET_EVERY = 20  # looks: a number may have been given to another process meanwhile


class Parents:
    """`proc`: where the processes are listed."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._of: dict[int, int] = {}
        self._looks = 0

    def children(self) -> dict[int, list[int]]:
        """Process -> those that it started and that are there now. Raises OSError where `proc` cannot be listed."""
        known = {} if self._looks % FORGET_EVERY == 0 else self._of
        self._looks += 1
        self._of = {}
        children: dict[int, list[int]] = {}
        for name in os.listdir(self._proc):
            if not name.isdigit():
                continue
            pid = int(name)
            parent = known.get(pid)
            if parent is None and (parent := self._parent(name)) is None:
                continue
            self._of[pid] = parent
            children.setdefault(parent, []).append(pid)
        return children

    def _parent(self, name: str) -> int | None:
        """None: it has ended, or may not be looked at."""
        try:
            fields = (self._proc / name / "stat").read_bytes().rpartition(b")")[2].split()
            return int(fields[1])
        except (OSError, IndexError, ValueError):
            return None
