"""Text of an exporter -> the samples that are wanted of it. Bounded; a line that cannot be read costs that line."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

MAX_LINES = 200_000
MAX_SAMPLES = 20_000
MAX_LINE = 8_192
# what strange text makes parsers raise: an IndexError where a name is a lone quote, say
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series. `at`: when it was taken, unix seconds; None where only the scrape knows."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    at: float | None = None


def read_exposition(text: str, wanted: Collection[str]) -> list[Sample]:
    """The samples of the `wanted` metrics, in their order; all others are passed over unread."""
    lines = [line for line in _lines(text) if _name(line) in wanted][:MAX_SAMPLES]
    try:
        return list(_parse(lines))
    except UNREADABLE:
        return [sample for line in lines for sample in _parse_one(line)]


def _lines(text: str) -> Iterator[str]:
    for number, line in enumerate(text.split("\n")):
        if number >= MAX_LINES:
            return
        if line and line[0] != "#" and len(line) <= MAX_LINE:
            yield line.rstrip("\r")


def _name(line: str) -> str:
    ends = [place for sign in "{ \t" if (place := line.find(sign)) > 0]
    return line[: min(ends, default=len(line))]


def _parse(lines: Sequence[str]) -> Iterator[Sample]:
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            at = math.nan if sample.timestamp is None else float(sample.timestamp)
            told = at if math.isfinite(at) else None
            yield Sample(sample.name, float(sample.value), dict(sample.labels), told)


def _parse_one(line: str) -> list[Sample]:
    try:
        return list(_parse([line]))
    except UNREADABLE:
        return []
