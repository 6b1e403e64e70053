"""The same trouble on many nodes at once has one cause and is one finding about the run."""

from __future__ import annotations

from collections.abc import Sized

MANY_NODES = 3
MANY_RATIO = 0.25
NAMED = 64


def are_many(troubled: Sized, all_nodes: Sized) -> bool:
    """At least three nodes and at least a quarter of them."""
    return len(troubled) >= max(MANY_NODES, MANY_RATIO * len(all_nodes))
