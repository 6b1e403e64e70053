"""The node's own series: memory, disks, links and the processes that hold the GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from detectors.telemetry import HostReading
from watcher.families import counter, gauge

GAUGES = {
    "load_average": ("runwatch_host_load1", "Load average over a minute."),
    "memory_used_bytes": ("runwatch_host_memory_used_bytes", "Memory that is not available."),
    "memory_total_bytes": ("runwatch_host_memory_size_bytes", "Memory of the node."),
    "shm_used_bytes": ("runwatch_host_shm_used_bytes", "Shared memory in use (/dev/shm)."),
    "shm_total_bytes": ("runwatch_host_shm_size_bytes", "Shared memory there is."),
    "network_bytes_per_second": (
        "runwatch_host_network_bytes_per_second",
        "Over network cards and InfiniBand, both directions.",
    ),
    "run_memory_bytes": ("runwatch_host_run_memory_bytes", "Resident memory of the processes that hold GPUs."),
    "run_memory_limit_bytes": (
        "runwatch_host_run_memory_limit_bytes",
        "Memory limit of the control group of those processes.",
    ),
    "run_cpu_cores": ("runwatch_host_run_cpu_cores", "CPU seconds a second of the processes that hold GPUs."),
    "run_read_bytes_per_second": ("runwatch_host_run_read_bytes_per_second", "What the processes that hold GPUs read."),
    "run_write_bytes_per_second": (
        "runwatch_host_run_write_bytes_per_second",
        "What the processes that hold GPUs write.",
    ),
}


def host_metrics(node: str, host: HostReading | None) -> Iterator[Metric]:
    """Nothing where the node was not read of late."""
    if host is None:
        return
    for attribute, (name, text) in GAUGES.items():
        yield gauge(name, text, ["node"], [((node,), getattr(host, attribute))])
    yield gauge(
        "runwatch_host_run_processes_in_disk_sleep",
        "Processes of the run in state D.",
        ["node"],
        [((node,), len(host.processes_in_disk_sleep))],
    )
    disks, by_mount = host.disks.items(), ["node", "mount"]
    yield gauge(
        "runwatch_host_disk_used_bytes", "Disk in use.", by_mount, (((node, at), used) for at, (used, _) in disks)
    )
    yield gauge(
        "runwatch_host_disk_size_bytes",
        "Size of the disk for users.",
        by_mount,
        (((node, at), size) for at, (_, size) in disks),
    )
    yield gauge(
        "runwatch_host_links_down",
        "Ports that were up before and are not now.",
        ["node"],
        [((node,), len(host.links_down))],
    )
    yield counter(
        "runwatch_host_link_downs",
        "Times a port went down since boot.",
        ["node", "port"],
        (((node, port), times) for port, times in host.link_flaps.items()),
    )
