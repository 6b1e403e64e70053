"""Row remapping of GPU memory as a finding: what NVML counts, and which GPU it is."""

from __future__ import annotations

from typing import Any

from detectors.telemetry import GpuReading, NodeView


def remap_evidence(node: NodeView, gpu: GpuReading) -> dict[str, Any]:
    """Identity of the GPU and its remap counters."""
    return {
        "node": node.name,
        "gpu_index": gpu.index,
        "gpu_uuid": gpu.uuid,
        "serial": gpu.serial,
        "pci_bus_id": gpu.pci_bus_id,
        "remapped_correctable_count": gpu.remapped_correctable_count,
        "remapped_uncorrectable_count": gpu.remapped_uncorrectable_count,
    }
