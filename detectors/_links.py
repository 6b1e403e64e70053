"""What is wrong with the links of a node: ports, NVLinks, PCIe. link_fault says it, a slow run names it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from detectors.frame import Frame
from detectors.telemetry import NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLimits:
    """PCIe is judged on busy GPUs alone: an idle link saves power by running narrow. A port flaps when it went down
    `flaps` times within `flap_seconds`. Rates are over five to ten minutes; a sound link has none. The fabric of
    NVSwitches may take `boot_seconds` after a boot to be ready."""

    busy_ratio: float = 0.5
    flaps: int = 2
    flap_seconds: float = 1800.0
    pcie_replays_per_minute: float = 8.0
    nvlink_errors_per_minute: float = 60.0
    boot_seconds: float = 600.0


def link_troubles(frame: Frame, node: NodeView, limits: LinkLimits) -> Iterator[str]:
    """One readable part each."""
    for port in node.host.links_down if node.host is not None else ():
        yield f"{port} is down"
    for port, times in node.flaps_at.items():
        count = sum(frame.now - at <= limits.flap_seconds for at in times)
        if count >= limits.flaps:
            yield f"{port} went down {count} times"
    for gpu in node.gpus:
        busy = gpu.utilization_ratio is not None and gpu.utilization_ratio >= limits.busy_ratio
        if busy and gpu.pcie_width and gpu.pcie_width_max and gpu.pcie_width < gpu.pcie_width_max:
            yield f"PCIe of gpu {gpu.index} is x{gpu.pcie_width} of x{gpu.pcie_width_max}"
        if gpu.nvlink_down_count:
            yield f"{gpu.nvlink_down_count} NVLinks of gpu {gpu.index} are down"
        if gpu.fabric_state not in (None, "completed") and not _boots(node, limits):
            yield f"the fabric of gpu {gpu.index} is {str(gpu.fabric_state).replace('_', ' ')}"
    for uuid, (replays, errors) in node.link_error_rates.items():
        if replays >= limits.pcie_replays_per_minute:
            yield f"PCIe of gpu {node.inventory.get(uuid)} repeats {replays:.0f} packets a minute"
        if errors >= limits.nvlink_errors_per_minute:
            yield f"NVLinks of gpu {node.inventory.get(uuid)} count {errors:.0f} errors a minute"


def _boots(node: NodeView, limits: LinkLimits) -> bool:
    uptime = node.host.uptime_seconds if node.host is not None else None
    return uptime is not None and uptime < limits.boot_seconds


def troubled_links(frame: Frame, most: int = 3) -> tuple[str, ...]:
    """ "n1: mlx5_0 is down", for pages about something else."""
    told = (f"{node.name}: {text}" for node in frame.nodes for text in link_troubles(frame, node, LinkLimits()))
    return tuple(text for text, _ in zip(told, range(most), strict=False))
