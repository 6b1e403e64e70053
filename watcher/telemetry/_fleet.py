"""Series of a whole fleet -> the samples of each node, with when they were taken. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from watcher.telemetry._prometheus_api import Series
from watcher.telemetry._samples import Sample

PORT = re.compile(r":\d+$")
LATE_TIMES = 2.5  # a series this many scrapes behind the newest of its node has ended
LONE_SECONDS = 60.0  # between scrapes, where only one was seen
MAX_MATCHER = 4_000
MAX_SEEN = 100_000
GAPS = 64  # of a node: enough for a median


ADDRESS = re.compile(r"[0-9]+(?:\.[0-9]+){3}|\[?[0-9A-Fa-f]*(?::[0-9A-Fa-f]*){2,}\]?")


class NodeNames:
    """Which node a label means: NODE, NODE:PORT or NODE.domain."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self.nodes = list(nodes)
        self._known = set(self.nodes)
        shorts: dict[str, list[str]] = defaultdict(list)
        for node in self._known:
            shorts[_short(node)].append(node)
        self._shorts = set(shorts)
        self._seen: dict[str, str | None] = {}
        self._short = {short: names[0] for short, names in shorts.items() if len(names) == 1}

    def of(self, label: str) -> str | None:
        if label not in self._seen:
            if len(self._seen) >= MAX_SEEN:
                self._seen.clear()
            self._seen[label] = self._resolve(label)
        return self._seen[label]

    def _resolve(self, label: str) -> str | None:
        name = label if label in self._known else PORT.sub("", label)
        return name if name in self._known else self._short.get(_short(name))

    def matcher(self, label: str) -> str:
        """A matcher that leaves other nodes out; empty where there are too many to name."""
        names = "|".join(sorted(re.escape(name).replace("\\-", "-") for name in self._shorts))
        text = f'{label}=~"(?i)(?:{names})(?:[.:].*)?"'.replace("\\", "\\\\")
        return text if names and '"' not in names and len(text) <= MAX_MATCHER else ""


def _short(name: str) -> str:
    """Without its domain; an address has none."""
    return name if ADDRESS.fullmatch(name) else name.split(".")[0].lower()


def selector(metric: str, *matchers: str) -> str:
    inside = ",".join(matcher for matcher in matchers if matcher)
    return f"{metric}{{{inside}}}" if inside else metric


@dataclass(slots=True)
class NodeSamples:
    """The newest of each series of a node. `interval`: between its scrapes, in seconds."""

    samples: list[Sample] = field(default_factory=list)
    taken_at: float = 0.0
    interval: float = LONE_SECONDS


def samples_by_node(found: Mapping[str, Sequence[Series]], label: str, names: NodeNames) -> dict[str, NodeSamples]:
    """`found`: metric -> its series, with the samples as they were taken. Newest first; series that ended are out."""
    nodes: dict[str, NodeSamples] = {}
    gaps: dict[str, list[float]] = defaultdict(list)
    for metric, series in found.items():
        for one in series:
            node = names.of(one.labels.get(label, ""))
            if node is None or not one.points:
                continue
            at, value = one.points[-1]
            mine = nodes.get(node)
            if mine is None:
                mine = nodes[node] = NodeSamples()
            mine.samples.append(Sample(metric, value, one.labels, at))
            if at > mine.taken_at:
                mine.taken_at = at
            if len(one.points) > 1 and len(gaps[node]) < GAPS:
                gaps[node].append(at - one.points[-2][0])
    for node, mine in nodes.items():
        if gaps[node]:
            mine.interval = max(1.0, median(gaps[node]))
        oldest = mine.taken_at - LATE_TIMES * mine.interval
        live = [sample for sample in mine.samples if sample.at is not None and sample.at >= oldest]
        mine.samples = sorted(live, key=lambda sample: sample.at or 0.0, reverse=True)
    return nodes
