"""Metric families from rows of values. What is not known leaves its row out; 0 is a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

Row = tuple[Sequence[str], float | None]  # values of the labels, and the number


def gauge(name: str, text: str, labels: Sequence[str], rows: Iterable[Row]) -> GaugeMetricFamily:
    """`text` is a sentence: it is the HELP line and what deploy/metrics.md says."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, number in rows:
        if number is not None:
            family.add_metric(_clean(values), float(number))
    return family


def counter(name: str, text: str, labels: Sequence[str], rows: Iterable[Row]) -> CounterMetricFamily:
    """`name` without `_total`. Rows exist at 0 from the start, so that the first increase is seen."""
    family = CounterMetricFamily(name, text, labels=labels)
    for values, number in rows:
        if number is not None:
            family.add_metric(_clean(values), float(number))
    return family


def info(
    name: str, text: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], Mapping[str, str]]]
) -> InfoMetricFamily:
    """`name` without `_info`; what is fixed of a thing, as labels to join with."""
    family = InfoMetricFamily(name, text, labels=labels)
    for values, fixed in rows:
        family.add_metric(_clean(values), dict(zip(fixed, _clean(list(fixed.values())), strict=True)))
    return family


def one_hot(
    name: str, text: str, labels: Sequence[str], words: Sequence[str], rows: Iterable[tuple[Sequence[str], str]]
) -> GaugeMetricFamily:
    """1 for the word that holds and 0 for all others, so that no old state stays behind. The last label is the word."""
    return gauge(name, text, labels, (((*values, word), word == now) for values, now in rows for word in words))


def _clean(values: Sequence[str]) -> Sequence[str]:
    """A name that is no UTF-8 (of a mount, say) would cost the whole scrape."""
    return [value if value.isascii() else value.encode("utf-8", "replace").decode() for value in values]
