"""Metric families from rows of values. What is not known leaves its row out; 0 is a value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

Row = tuple[Sequence[str], float | None]  # values of the labels, and the number


def gauge(name: str, text: str, labels: Sequence[str], rows: Iterable[Row]) -> GaugeMetricFamily:
    """`text` is a sentence: it is the HELP line and what deploy/metrics.md says."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, number in rows:
        if number is not None:
            family.add_metric(values, float(number))
    return family


def counter(name: str, text: str, labels: Sequence[str], rows: Iterable[Row]) -> CounterMetricFamily:
    """`name` without `_total`. Rows exist at 0 from the start, so that the first increase is seen."""
    family = CounterMetricFamily(name, text, labels=labels)
    for values, number in rows:
        if number is not None:
            family.add_metric(values, float(number))
    return family


def one_hot(
    name: str, text: str, labels: Sequence[str], words: Sequence[str], rows: Iterable[tuple[Sequence[str], str]]
) -> GaugeMetricFamily:
    """1 for the word that holds and 0 for all others, so that no old state stays behind. The last label is the word."""
    return gauge(name, text, labels, (((*values, word), word == now) for values, now in rows for word in words))
