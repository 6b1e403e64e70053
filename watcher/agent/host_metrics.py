"""The node's own series: memory, disks, links and the processes that hold the GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from detectors.telemetry import HostReading

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
    "run_memory_limit_bytes": ("runwatch_host_run_memory_limit_bytes", "Limit of their control group."),
    "run_cpu_cores": ("runwatch_host_run_cpu_cores", "CPU seconds a second of the processes that hold GPUs."),
    "run_read_bytes_per_second": ("runwatch_host_run_read_bytes_per_second", "What they read."),
    "run_write_bytes_per_second": ("runwatch_host_run_write_bytes_per_second", "What they write."),
}


def host_metrics(node: str, host: HostReading | None) -> Iterator[Metric]:
    """Nothing where the node was not read of late."""
    if host is None:
        return
    for attribute, (name, text) in GAUGES.items():
        gauge = GaugeMetricFamily(name, text, labels=["node"])
        value = getattr(host, attribute)
        if value is not None:
            gauge.add_metric([node], value)
        yield gauge
    sleeping = GaugeMetricFamily(
        "runwatch_host_run_processes_in_disk_sleep", "Processes of the run in state D.", labels=["node"]
    )
    sleeping.add_metric([node], len(host.processes_in_disk_sleep))
    used = GaugeMetricFamily("runwatch_host_disk_used_bytes", "Disk in use.", labels=["node", "mount"])
    size = GaugeMetricFamily("runwatch_host_disk_size_bytes", "Size of the disk for users.", labels=["node", "mount"])
    for mount, (taken, total) in host.disks.items():
        used.add_metric([node, mount], taken)
        size.add_metric([node, mount], total)
    down = GaugeMetricFamily("runwatch_host_links_down", "Ports that were up before and are not now.", labels=["node"])
    down.add_metric([node], len(host.links_down))
    flaps = CounterMetricFamily("runwatch_host_link_downs", "Times a port went down.", labels=["node", "port"])
    for port, times in host.link_flaps.items():
        flaps.add_metric([node, port], times)
    yield from (sleeping, used, size, down, flaps)
