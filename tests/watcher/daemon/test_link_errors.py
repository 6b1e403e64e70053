"""Error counters of links as rates: growth over minutes, not the sum since the boot."""

from __future__ import annotations

import pytest

from detectors.telemetry import GpuReading
from watcher.daemon.link_errors import LinkErrors


def rates(counts: list[int | None], every: float = 30.0) -> dict[str, tuple[float, float]]:
    errors = LinkErrors()
    for i, count in enumerate(counts):
        errors.add(i * every, GpuReading(uuid="GPU-1", index=0, pcie_replay_count=count))
    return errors.rates


@pytest.mark.parametrize(
    ("counts", "per_minute"),
    [
        pytest.param([5000] * 20, None, id="many since the boot and none now"),
        pytest.param([5000 + 10 * i for i in range(40)], 20.0, id="twenty a minute"),
        pytest.param([0, 100], None, id="half a minute is no rate"),
        pytest.param([100 * i for i in range(10)] + [900] * 60, None, id="it is over"),
        pytest.param([5000 + 10 * i for i in range(20)] + [0, 10, 20, 30], 20.0, id="the counter was reset"),
        pytest.param([None] * 20, None, id="the card has no such counter"),
    ],
)
def test_how_fast_a_counter_grows(counts, per_minute):
    found = rates(counts)
    assert found == ({} if per_minute is None else {"GPU-1": (pytest.approx(per_minute), 0.0)})
