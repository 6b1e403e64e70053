"""The GPU series of the agent. They carry node and UUID, nothing that a job could change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import Metric

from detectors._xid_codes import xid_code
from detectors.telemetry import GpuReading
from watcher.families import counter, gauge, info

GAUGES = {
    "power_watts": ("runwatch_gpu_power_watts", "Power that the board draws."),
    "power_limit_watts": ("runwatch_gpu_power_limit_watts", "Power limit that is enforced."),
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
    "remap_pending": ("runwatch_gpu_row_remap_pending", "1 while a row remap waits for a reset, else 0."),
    "power_instant_watts": ("runwatch_gpu_power_instant_watts", "Power now, where the board power is an average."),
    "memory_temperature_celsius": ("runwatch_gpu_memory_temperature_celsius", "Temperature of the memory."),
    "ecc_enabled": ("runwatch_gpu_ecc_enabled", "1 where ECC is on, else 0."),
    "nvlink_bytes_per_second": ("runwatch_gpu_nvlink_bytes_per_second", "Data over all NVLinks, both directions."),
    "pcie_bytes_per_second": ("runwatch_gpu_pcie_bytes_per_second", "Data over PCIe, both directions."),
    "nvlink_down_count": ("runwatch_gpu_nvlinks_down", "NVLinks that were active before and are not now."),
    "pcie_width": ("runwatch_gpu_pcie_lanes", "PCIe lanes in use."),
    "pcie_width_max": ("runwatch_gpu_pcie_lanes_max", "PCIe lanes that card and slot can use."),
    "pcie_generation": ("runwatch_gpu_pcie_generation", "PCIe generation in use."),
    "unread_seconds": ("runwatch_gpu_unread_seconds", "How long a GPU has not answered; absent while it does."),
    "remap_failed": ("runwatch_gpu_row_remap_failed", "1 after a row remap failed, else 0."),
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


def gpu_metrics(node: str, readings: Sequence[GpuReading], xids: Counter[tuple[str, int]]) -> Iterator[Metric]:
    """Of fresh readings; what a card does not have is absent. XIDs are counted whether it can be read or not."""
    gpus = {gpu.uuid: gpu for gpu in reversed(readings)}  # two of one name would cost the whole scrape
    rows = [((node, uuid), gpu) for uuid, gpu in sorted(gpus.items())]
    yield info("runwatch_gpu", "What is fixed of a GPU.", LABELS, ((labels, _fixed(gpu)) for labels, gpu in rows))
    yield gauge(
        "runwatch_gpu_lost",
        "1 while the driver says that the GPU is lost, else 0.",
        LABELS,
        ((labels, gpu.state == "lost") for labels, gpu in rows),
    )
    for attribute, (name, text) in GAUGES.items():
        scale = SCALE.get(attribute, 1.0)
        values = ((labels, getattr(gpu, attribute)) for labels, gpu in rows)
        yield gauge(name, text, LABELS, ((labels, v if v is None else float(v) * scale) for labels, v in values))
    for attribute, (name, text) in COUNTERS.items():
        yield counter(name, text, LABELS, ((labels, getattr(gpu, attribute)) for labels, gpu in rows))
    yield counter(
        "runwatch_gpu_ecc_errors",
        "ECC errors by counter (volatile: since the driver was loaded, aggregate: of the card's life) and kind.",
        [*LABELS, "counter", "kind"],
        (((*labels, *place), getattr(gpu, attribute)) for labels, gpu in rows for attribute, place in ECC.items()),
    )
    yield gauge(
        "runwatch_gpu_throttled_ratio",
        "Share of time in which this reason held the clocks down.",
        [*LABELS, "reason"],
        (((*labels, why), share) for labels, gpu in rows for why, share in (gpu.throttle_ratios or {}).items()),
    )
    yield from _xids(node, gpus, xids)


def _fixed(gpu: GpuReading) -> dict[str, str]:
    fixed = {"index": str(gpu.index), "name": gpu.name, "pci_bus_id": gpu.pci_bus_id, "serial": gpu.serial}
    return {key: value for key, value in fixed.items() if value}


def _xids(node: str, uuids: Iterable[str], xids: Counter[tuple[str, int]]) -> Iterator[Metric]:
    """One counter is there at 0 from the start, so that the first XID is an increase; the other has the codes."""
    hardware = Counter(dict.fromkeys(uuids, 0))
    for (uuid, code), times in xids.items():
        hardware[uuid] += times if xid_code(code).whose == "hardware" else 0
    yield counter(
        "runwatch_gpu_hardware_xids",
        "XIDs that speak of the hardware since the start of the agent.",
        LABELS,
        (((node, uuid), times) for uuid, times in sorted(hardware.items())),
    )
    yield counter(
        "runwatch_gpu_xid_errors",
        "XIDs of the driver since the start of the agent, by code.",
        [*LABELS, "xid"],
        (((node, uuid, str(code)), times) for (uuid, code), times in sorted(xids.items())),
    )
