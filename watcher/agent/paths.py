"""Which files a configured path means now: `%N`, wildcards, no compressed leftovers of a rotation."""

from __future__ import annotations

import glob
import itertools
import os
import stat
from collections.abc import Sequence

MAX_MATCHES = 10_000  # looked at for one pattern
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip", ".lz4")


def patterns_for(path: str, node: str) -> tuple[str, ...]:
    """A path with the node's name in place of `%N`: the whole name, and its first label where it has several."""
    if "%N" not in path:
        return (path,)
    names = dict.fromkeys((node, node.partition(".")[0]))
    return tuple(path.replace("%N", glob.escape(name)) for name in names)


def is_pattern(path: str) -> bool:
    return glob.has_magic(path)


def matches(patterns: Sequence[str]) -> list[str]:
    """The files behind the patterns, the last changed first; a pattern without wildcards is itself.

    Reads folders, and so may block as long as a network file system does. What cannot be read is not there.
    """
    found: dict[str, float] = {}
    for pattern in patterns:
        if not is_pattern(pattern) or os.path.lexists(pattern):  # `run[1].log` may be meant as it stands
            found[pattern] = float("inf")
            continue
        for path in itertools.islice(glob.iglob(pattern, recursive=True), MAX_MATCHES):
            if path.endswith(COMPRESSED):
                continue
            try:
                status = os.stat(path)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                found[path] = status.st_mtime
    return sorted(found, key=lambda path: (-found[path], path))
