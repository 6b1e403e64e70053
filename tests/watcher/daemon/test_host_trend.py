"""What is kept of a node over an hour: its memory by the minute, and when each port went down."""

from __future__ import annotations

import pytest

from detectors.telemetry import HostReading
from watcher.daemon.host_trend import POINTS, HostTrend


def reading(used: int, flaps: int = 0, **more) -> HostReading:
    return HostReading(memory_used_bytes=used, memory_total_bytes=100, link_flaps={"mlx5_0/1": flaps}, **more)


def test_it_keeps_a_point_a_minute_for_an_hour():
    trend = HostTrend()
    for t in range(0, 3 * 3600, 10):
        trend.add(float(t), reading(50))
    assert len(trend.memory) == POINTS
    assert trend.memory[-1][0] - trend.memory[0][0] == 59 * 60


def test_the_limit_of_the_run_counts_where_there_is_one():
    trend = HostTrend()
    trend.add(0.0, reading(10, run_memory_bytes=90, run_memory_limit_bytes=100))
    assert trend.memory[-1] == (0.0, 0.9)


def test_a_port_flaps_when_its_counter_rises_and_not_by_what_it_was_before_or_by_a_reboot():
    trend = HostTrend()
    for t, count in enumerate((7, 7, 8, 8, 0, 1)):
        trend.add(10.0 * t, reading(10, count))
    assert list(trend.flaps["mlx5_0/1"]) == [20.0, 50.0]


NOTHING = {
    "run_cpu_cores": 0.2, "run_read_bytes_per_second": 0.0, "run_write_bytes_per_second": 20.0,
    "network_bytes_per_second": 9e3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("does", "since"),
    [
        pytest.param({}, 10.0, id="nothing but threads that look around"),
        pytest.param({"run_cpu_cores": 1.0}, None, id="one thread works or spins"),
        pytest.param({"run_read_bytes_per_second": 5e6}, None, id="it reads"),
        pytest.param({"run_write_bytes_per_second": 5e6}, None, id="it writes"),
        pytest.param({"network_bytes_per_second": 5e8}, None, id="data come over the network"),
        pytest.param({"run_cpu_cores": None}, None, id="no process of the run is known"),
        pytest.param({"network_bytes_per_second": None}, None, id="the network cannot be seen"),
    ],
)
def test_since_when_the_processes_of_the_run_do_nothing(does, since):
    trend = HostTrend()
    trend.add(0.0, HostReading(**NOTHING | {"run_cpu_cores": 7.0}), 8)
    for t in (10.0, 20.0, 30.0):
        trend.add(t, HostReading(**NOTHING | does), 8)
    assert trend.quiet_since == since
