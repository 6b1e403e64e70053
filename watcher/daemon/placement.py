"""Which nodes, and which of their GPUs, are a run's at present. Pure. Nodes that left are known when they return."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from watcher.daemon.nodes import NodeFold
from watcher.fleet._api import Place
from watcher.snapshot import Snapshot, XidLine

REMEMBERED = 4096  # nodes that left
EARLIER_SECONDS = 5.0  # the clocks of a node and of the scheduler differ


class Placement:
    """`nodes`: those of the run now, in their order. `since_at`: lines that a node wrote before are another job's."""

    def __init__(self, nodes: Iterable[str], expected_gpus: int | None) -> None:
        self._expected = expected_gpus
        self.nodes: dict[str, NodeFold] = {name: NodeFold(name, expected_gpus) for name in nodes}
        self.since_at: float | None = None
        self._minors: dict[str, tuple[int, ...] | None] = {}
        self._left: dict[str, NodeFold] = {}

    def node(self, name: str) -> NodeFold:
        return self.nodes.setdefault(name, NodeFold(name, self._expected))

    def move(self, places: Sequence[Place]) -> bool:
        """To other nodes. Answers whether they differ from the present ones."""
        self._minors = {place.node: place.gpu_minors for place in places}
        wanted = list(self._minors)
        if wanted == list(self.nodes):
            return False
        present, self.nodes = self.nodes, {}
        for name in wanted:
            known = present.pop(name, None) or self._left.pop(name, None)
            self.nodes[name] = known if known is not None else NodeFold(name, self._expected)
        self._left |= present
        while len(self._left) > REMEMBERED:
            del self._left[next(iter(self._left))]
        return True

    def places(self) -> list[Place]:
        return [Place(node=name, gpu_minors=self._minors.get(name)) for name in self.nodes]

    def own(self, name: str, snapshot: Snapshot) -> Snapshot:
        """Without the GPUs of other jobs, where the source names the devices and the agent their numbers."""
        minors = self._minors.get(name)
        gpus = snapshot.gpus
        if minors is None or len(minors) >= len(gpus) or any(gpu.minor is None for gpu in gpus):
            return snapshot
        own = tuple(gpu for gpu in gpus if gpu.minor in minors)
        others = {gpu.uuid for gpu in gpus} - {gpu.uuid for gpu in own}
        events = tuple(e for e in snapshot.events if not (isinstance(e, XidLine) and e.gpu_uuid in others))
        self._forget(name, others)
        return snapshot.model_copy(update={"gpus": own, "events": events, "expected_gpus": len(minors)})

    def _forget(self, name: str, uuids: Iterable[str]) -> None:
        """What an earlier job had on this node is not missed."""
        node = self.node(name)
        for uuid in uuids:
            node.inventory.pop(uuid, None)
            node.last_seen.pop(uuid, None)
            node.lost_at.pop(uuid, None)

    def is_earlier(self, line_at: float) -> bool:
        return self.since_at is not None and line_at < self.since_at - EARLIER_SECONDS

    def dump(self) -> dict[str, Any]:
        return {"places": [[p.node, p.gpu_minors] for p in self.places()], "since_at": self.since_at}


def places_of(raw: dict[str, Any]) -> tuple[list[Place], float | None]:
    """What `dump` wrote. Raises KeyError, TypeError or ValueError."""
    places = [
        Place(node=str(node), gpu_minors=None if minors is None else tuple(int(minor) for minor in minors))
        for node, minors in raw["places"]
    ]
    return places, None if raw["since_at"] is None else float(raw["since_at"])
