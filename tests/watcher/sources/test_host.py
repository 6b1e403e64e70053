"""The node apart from its GPUs: real processes of this machine, links from a made-up /sys."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from watcher.clock import FakeClock, SystemClock
from watcher.sources.host import HostSource
from watcher.sources.host_links import read_links
from watcher.sources.host_processes import RunProcesses


def test_the_node_has_memory_and_disks_and_an_age():
    reading = HostSource(SystemClock(), [Path.cwd()]).read(())
    assert 0 < reading.memory_used_bytes < reading.memory_total_bytes
    assert reading.uptime_seconds > 0
    assert all(0 <= used <= total for used, total in reading.disks.values())
    assert reading.boot_id
    assert (reading.run_cpu_cores, reading.run_memory_bytes, reading.processes_in_disk_sleep) == (None, None, ())


@pytest.fixture
def loader(tmp_path):
    """A process that has started another; both write when they are told."""
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "for line in sys.stdin:\n"
        "    child.stdin.write(line.encode()); child.stdin.flush(); child.stdout.readline(); print('ok', flush=True)\n"
    )
    work = (
        "import sys\nfor line in sys.stdin:\n    open('data', 'wb').write(b'x' * 5_000_000); print('ok', flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, work], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    yield process
    process.stdin.close()
    process.wait(10)
    process.stdout.close()


def say(process: subprocess.Popen[str]) -> None:
    process.stdin.write("write\n")
    process.stdin.flush()
    assert process.stdout.readline() == "ok\n"


def test_what_a_child_of_the_process_writes_counts_too(loader, tmp_path):
    say(loader)
    processes = RunProcesses()
    first = processes.read([loader.pid], 100.0)
    assert (first.cpu_cores, first.write_bytes_per_second) == (None, None)
    assert first.memory_bytes > 1_000_000
    assert first.folders == (tmp_path,)
    say(loader)
    second = processes.read([loader.pid], 110.0)
    assert 500_000 <= second.write_bytes_per_second < 600_000
    assert second.cpu_cores >= 0
    idle = processes.read([loader.pid], 120.0)
    assert (idle.write_bytes_per_second, idle.read_bytes_per_second, idle.cpu_cores) == (0, 0, 0)


def test_a_process_that_is_not_here_leaves_everything_unknown():
    gone = subprocess.Popen(["true"])
    gone.wait(10)
    reading = RunProcesses().read([gone.pid], 1.0)
    assert (reading.memory_bytes, reading.cpu_cores) == (None, None)


def test_reading_twice_gives_the_rate_of_the_network_between(tmp_path):
    card = tmp_path / "sys/class/net/eth0"
    write(card, {"device": "", "statistics/rx_bytes": "1000", "statistics/tx_bytes": "0"})
    clock = FakeClock()
    source = HostSource(clock, root=tmp_path)
    assert source.read(()).network_bytes_per_second is None
    clock.advance(10)
    write(card, {"statistics/rx_bytes": "6000"})
    assert source.read([os.getpid()]).network_bytes_per_second == 500
    clock.advance(10)
    write(card, {"statistics/rx_bytes": "7000"})
    assert source.read([os.getpid()]).network_bytes_per_second == 100


def test_a_port_that_was_up_and_is_down_is_named_and_one_without_a_cable_is_not(tmp_path):
    net, ib = tmp_path / "sys/class/net", tmp_path / "sys/class/infiniband"
    up = {"device": "", "operstate": "up", "carrier_up_count": "1", "carrier_down_count": "0"}
    write(net / "eth0", {**up, "statistics/rx_bytes": "10", "statistics/tx_bytes": "5"})
    write(net / "eth1", {**up, "operstate": "down", "carrier_down_count": "3"})
    write(net / "eth2", {**up, "operstate": "down", "carrier_up_count": "0"})
    write(net / "lo", {"operstate": "unknown", "statistics/rx_bytes": "999"})
    port = {"link_layer": "InfiniBand", "state": "4: ACTIVE", "counters/link_downed": "0"}
    write(ib / "mlx5_0/ports/1", {**port, "counters/port_rcv_data": "100", "counters/port_xmit_data": "50"})
    write(ib / "mlx5_1/ports/1", {**port, "state": "1: DOWN", "counters/link_downed": "2"})
    write(ib / "mlx5_2/ports/1", {**port, "state": "1: DOWN"})
    links = read_links(tmp_path)
    assert links.down == ("eth1", "mlx5_1/1")
    assert links.bytes_moved == 15 + 4 * 150
    assert (links.flaps["eth1"], links.flaps["mlx5_1/1"], links.flaps["mlx5_0/1"]) == (3, 2, 0)


def test_a_node_without_any_of_this_has_no_links(tmp_path):
    assert read_links(tmp_path).flaps == {}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + "\n")
