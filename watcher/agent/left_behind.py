"""Files that lost their name while nobody watched: a log that was rotated while the agent was down."""

from __future__ import annotations

import itertools
import os

from watcher.agent.identity import place_of
from watcher.agent.positions import Position, Positions
from watcher.agent.tail import Tail, open_log

MAX_ENTRIES = 10_000  # of the folder


def find_left_behind(path: str, node: str, positions: Positions, most: int) -> list[tuple[Tail, Position]]:
    """Files beside `path` that were read under this name, the oldest first, at the place where reading stopped.

    Only what grew since is answered. Raises nothing: what cannot be looked at stays behind.
    """
    wanted = {int(identity.split(":")[1]): identity for identity in positions.under(path)}
    found: list[tuple[Tail, Position]] = []
    if not wanted:
        return found
    try:
        with os.scandir(os.path.dirname(path)) as folder:
            beside = [e.path for e in itertools.islice(folder, MAX_ENTRIES) if e.inode() in wanted and e.path != path]
    except OSError:
        return found
    for other in beside:
        try:
            fd = open_log(other)
        except OSError:
            continue
        tail = Tail(path, fd, place_of(os.fstat(fd).st_dev, node))
        known = positions.get(tail.identity)
        if known is None or not tail.still_holds(known) or tail.stat().st_size <= known.offset:
            tail.close()
            continue
        tail.go_to(known)
        found.append((tail, known))
    found.sort(key=lambda pair: pair[0].stat().st_mtime)
    for tail, _ in found[:-most]:
        tail.close()
    return found[-most:]
