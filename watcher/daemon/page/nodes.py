"""The strike ledger by node, the worst first, and which nodes to leave out. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from detectors.frame import Frame, Strike

WEEK_SECONDS = 7 * 86_400.0
EXCLUDED_FROM = 2  # counted strikes within a week
SHOWN_STRIKES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWords:
    name: str
    runs: tuple[str, ...]
    counted: int  # strikes that count, within a week
    strikes: tuple[Strike, ...]  # the newest first
    more: int
    exclude: bool
    error: str | None  # why it does not answer


def node_words(strikes: Iterable[Strike], frames: Iterable[Frame], now: float) -> list[NodeWords]:
    """Nodes that were struck or do not answer."""
    struck: dict[str, list[Strike]] = defaultdict(list)
    runs: dict[str, list[str]] = defaultdict(list)
    errors: dict[str, str] = {}
    for strike in strikes:
        struck[strike.node].append(strike)
    for frame in frames:
        for node in frame.nodes:
            runs[node.name].append(frame.run)
            if node.reachable is False:
                errors[node.name] = node.error or "no answer"
    out = []
    for name in {*struck, *errors}:
        newest = sorted(struck[name], key=lambda strike: -strike.at)
        counted = sum(strike.counted and now - strike.at <= WEEK_SECONDS for strike in newest)
        out.append(
            NodeWords(
                name=name, runs=tuple(runs[name]), counted=counted, strikes=tuple(newest[:SHOWN_STRIKES]),
                more=max(0, len(newest) - SHOWN_STRIKES), exclude=counted >= EXCLUDED_FROM, error=errors.get(name),
            )
        )  # fmt: skip
    return sorted(out, key=lambda node: (-node.counted, node.error is None, node.name))
