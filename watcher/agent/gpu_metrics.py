"""The GPU series of the agent. They carry node and UUID, nothing that a job could change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from detectors.telemetry import GpuReading

GAUGES = {
    "power_watts": ("runwatch_gpu_power_watts", "Board power."),
    "power_limit_watts": ("runwatch_gpu_power_limit_watts", "Enforced power limit."),
    "utilization_ratio": ("runwatch_gpu_utilization_ratio", "Share of time in which any kernel ran."),
    "memory_utilization_ratio": (
        "runwatch_gpu_memory_utilization_ratio",
        "Share of time in which memory was accessed.",
    ),
    "memory_used_bytes": ("runwatch_gpu_memory_used_bytes", "Memory in use."),
    "memory_total_bytes": ("runwatch_gpu_memory_size_bytes", "Memory of the card."),
    "temperature_celsius": ("runwatch_gpu_temperature_celsius", "Temperature of the GPU."),
    "sm_clock_mhz": ("runwatch_gpu_sm_clock_hertz", "Clock of the multiprocessors."),
    "process_count": ("runwatch_gpu_processes", "Compute processes on the GPU."),
    "remap_pending": ("runwatch_gpu_row_remap_pending", "1 while a row remap waits for a reset."),
    "power_instant_watts": ("runwatch_gpu_power_instant_watts", "Power now, where the board power is an average."),
    "memory_temperature_celsius": ("runwatch_gpu_memory_temperature_celsius", "Temperature of the memory."),
    "ecc_enabled": ("runwatch_gpu_ecc_enabled", "1 where ECC is on."),
    "nvlink_bytes_per_second": ("runwatch_gpu_nvlink_bytes_per_second", "Data over all NVLinks, both directions."),
    "nvlink_down_count": ("runwatch_gpu_nvlinks_down", "NVLinks that were active before and are not now."),
    "pcie_width": ("runwatch_gpu_pcie_lanes", "PCIe lanes in use."),
    "pcie_width_max": ("runwatch_gpu_pcie_lanes_max", "PCIe lanes that card and slot can use."),
    "pcie_generation": ("runwatch_gpu_pcie_generation", "PCIe generation in use."),
    "remap_failed": ("runwatch_gpu_row_remap_failed", "1 after a row remap failed."),
}
SCALE = {"sm_clock_mhz": 1e6}
COUNTERS = {
    "pcie_replay_count": ("runwatch_gpu_pcie_replays", "Repeated PCIe packets."),
    "nvlink_error_count": ("runwatch_gpu_nvlink_errors", "Errors, replays and recoveries of the NVLinks."),
    "remapped_correctable_count": ("runwatch_gpu_rows_remapped_correctable", "Rows remapped for correctable errors."),
    "remapped_uncorrectable_count": (
        "runwatch_gpu_rows_remapped_uncorrectable",
        "Rows remapped for uncorrectable errors.",
    ),
    "retired_pages_count": ("runwatch_gpu_retired_pages", "Retired pages (cards without row remapping)."),
    "energy_joules": ("runwatch_gpu_energy_joules", "Energy since the driver was loaded."),
}
ECC = {
    "ecc_volatile_corrected_count": ("volatile", "corrected"),
    "ecc_volatile_uncorrected_count": ("volatile", "uncorrected"),
    "ecc_aggregate_corrected_count": ("aggregate", "corrected"),
    "ecc_aggregate_uncorrected_count": ("aggregate", "uncorrected"),
}
LABELS = ["node", "gpu"]


def gpu_metrics(node: str, gpus: Sequence[GpuReading], xids: Counter[tuple[str, int]]) -> Iterator[Metric]:
    """Of fresh readings; what a card does not have is absent. XIDs are counted whether it can be read or not."""
    info = InfoMetricFamily("runwatch_gpu", "What is fixed of a GPU.", labels=LABELS)
    lost = GaugeMetricFamily("runwatch_gpu_lost", "1 while the driver says that the GPU is lost.", labels=LABELS)
    for gpu in gpus:
        fixed = {"index": str(gpu.index), "name": gpu.name, "pci_bus_id": gpu.pci_bus_id, "serial": gpu.serial}
        info.add_metric([node, gpu.uuid], {key: value for key, value in fixed.items() if value})
        lost.add_metric([node, gpu.uuid], float(gpu.state == "lost"))
    yield from (info, lost)
    for attribute, (name, text) in GAUGES.items():
        gauge = GaugeMetricFamily(name, text, labels=LABELS)
        for gpu in gpus:
            value = getattr(gpu, attribute)
            if value is not None:
                gauge.add_metric([node, gpu.uuid], float(value) * SCALE.get(attribute, 1.0))
        yield gauge
    for attribute, (name, text) in COUNTERS.items():
        counter = CounterMetricFamily(name, text, labels=LABELS)
        for gpu in gpus:
            value = getattr(gpu, attribute)
            if value is not None:
                counter.add_metric([node, gpu.uuid], float(value))
        yield counter
    yield _ecc(node, gpus)
    throttled = GaugeMetricFamily(
        "runwatch_gpu_throttled_ratio", "Share of time in which this held the clocks down.", labels=[*LABELS, "reason"]
    )
    for gpu in gpus:
        for reason, ratio in (gpu.throttle_ratios or {}).items():
            throttled.add_metric([node, gpu.uuid, reason], ratio)
    yield throttled
    errors = CounterMetricFamily(
        "runwatch_gpu_xid_errors", "XIDs of the driver since the start of the agent.", labels=[*LABELS, "xid"]
    )
    for (uuid, code), times in sorted(xids.items()):
        errors.add_metric([node, uuid, str(code)], times)
    yield errors


def _ecc(node: str, gpus: Sequence[GpuReading]) -> Metric:
    ecc = CounterMetricFamily(
        "runwatch_gpu_ecc_errors", "ECC errors by counter and kind.", labels=[*LABELS, "counter", "kind"]
    )
    for gpu in gpus:
        for attribute, (which, kind) in ECC.items():
            value = getattr(gpu, attribute)
            if value is not None:
                ecc.add_metric([node, gpu.uuid, which, kind], value)
    return ecc
