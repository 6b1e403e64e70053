"""Hostlists ("node[001-048],login1") in the order in which they are written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
from pydantic import BeforeValidator

MAX_NODES = 50_000


def expand(text: str, *, groups: bool = False) -> tuple[str, ...]:
    """Each node once. Raises ValueError. `groups`: `@name` asks the node groups of this host's ClusterShell, which
    reads files and may run programs; without it such a name is refused, for it would be taken for a node's."""
    if "@" in text and not groups:
        meant = f"match: {{static: {{nodes: {text!r}, groups: true}}}}"
        raise ValueError(f"{text!r} names a group of this host's ClusterShell: write the nodes, or, if meant, {meant}")
    try:
        nodes = NodeSet(text) if groups else NodeSet(text, resolver=RESOLVER_NOGROUP)
    except NodeSetException as error:
        raise ValueError(f"not a hostlist: {error}") from None
    if len(nodes) > MAX_NODES:
        raise ValueError(f"more than {MAX_NODES} nodes")
    return tuple(str(name) for name in nodes)


def once_each(lists: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for names in lists for name in names))


def _nodes(value: Any) -> Any:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise ValueError('must be a hostlist like "node[001-048]" or a list of names')
    nodes = once_each(expand(text) for text in texts)
    if len(nodes) > MAX_NODES:
        raise ValueError(f"more than {MAX_NODES} nodes")
    return nodes


Nodes = Annotated[tuple[str, ...], BeforeValidator(_nodes)]
