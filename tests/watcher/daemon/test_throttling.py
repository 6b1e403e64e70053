"""Heat counts over minutes, not by one reading."""

from __future__ import annotations

import pytest

from detectors.telemetry import GpuReading
from watcher.daemon.throttling import Throttling


def hot(ratio: float, uuid: str = "a", reason: str = "hw_thermal") -> GpuReading:
    return GpuReading(uuid=uuid, index=0, throttle_ratios={reason: ratio})


def share(readings: list[tuple[float, float]]) -> float | None:
    seen = Throttling()
    for at, ratio in readings:
        seen.add(at, hot(ratio))
    return seen.shares.get("a", {}).get("hw_thermal")


def every(seconds: float, until: float, ratio: float, first: float = 0.0) -> list[tuple[float, float]]:
    return [(first + seconds * n, ratio) for n in range(int((until - first) / seconds) + 1)]


def test_nothing_is_said_before_two_minutes_were_seen():
    assert share(every(10, 110, 1.0)) is None
    assert share(every(10, 120, 1.0)) == 1.0


def test_one_hot_reading_is_a_small_share_and_half_the_time_is_half():
    assert share([*every(10, 290, 0.0), (300, 1.0)]) == pytest.approx(10 / 300)
    assert share([(10.0 * n, float(n % 2)) for n in range(60)]) == pytest.approx(0.5, abs=0.05)


def test_what_was_hot_is_forgotten_within_ten_minutes():
    cooled = [*every(10, 600, 1.0), *every(10, 1210, 0.0, first=610)]
    assert share(cooled) == 0.0


def test_after_a_gap_it_is_learnt_anew():
    assert share([*every(10, 600, 1.0), (5_000, 1.0)]) is None
    assert share([*every(10, 600, 0.0), *every(10, 5_120, 1.0, first=5_000)]) == 1.0


def test_cards_and_reasons_are_apart_and_one_that_says_nothing_is_unknown():
    seen = Throttling()
    for n in range(13):
        seen.add(10.0 * n, hot(1.0, "a"))
        seen.add(10.0 * n, hot(0.5, "b", "sw_thermal"))
        seen.add(10.0 * n, GpuReading(uuid="c", index=2))
    assert seen.shares == {"a": {"hw_thermal": 1.0}, "b": {"sw_thermal": 0.5}}
