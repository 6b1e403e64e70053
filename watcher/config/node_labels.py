"""The `node_labels:` section: what nodes are called by besides their names, for routes and windows of maintenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from alerts.policy import NodeSet, matches
from watcher.fleet._hostlist import expand

Labels = dict[str, Annotated[str, Field(min_length=1, max_length=200)]]


def _check(labels: dict[str, Labels]) -> dict[str, Labels]:
    for nodes in labels:
        _nodes(nodes)
    return labels


NodeLabels = Annotated[dict[str, Labels], Field(max_length=10_000), AfterValidator(_check)]


def nodes_with(labels: Mapping[str, Labels], wanted: Mapping[str, Sequence[str]]) -> tuple[NodeSet, ...]:
    """One set for each label that is wanted, by shell-style patterns of its value. ValueError where no node has it."""
    sets = []
    for name, patterns in wanted.items():
        found = [_nodes(nodes) for nodes, given in labels.items() if matches(tuple(patterns), given.get(name))]
        if not found:
            raise ValueError(f"no node has a label {name}: {', '.join(patterns)} under node_labels")
        names = frozenset[str]().union(*(one.names for one in found))
        sets.append(NodeSet(names, tuple(pattern for one in found for pattern in one.patterns)))
    return tuple(sets)


def _nodes(text: str) -> NodeSet:
    """A pattern where it holds `*` or `?`, else a hostlist. Raises ValueError."""
    return NodeSet(patterns=(text,)) if set(text) & set("*?") else NodeSet(frozenset(expand(text)))
