"""The /metrics of our own agent, for fleets that read it through their Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from watcher.agent.gpu_metrics import COUNTERS, ECC, GAUGES
from watcher.telemetry._api import exporter
from watcher.telemetry._dialect import Dialect, Into, count, flag, hertz, plain

CONVERT = {"sm_clock_mhz": hertz, "energy_joules": plain}


def _convert(field: str) -> Callable[[float], Any]:
    if field in CONVERT:
        return CONVERT[field]
    if field in ("remap_pending", "remap_failed", "ecc_enabled"):
        return flag
    whole = ("_count", "_bytes", "pcie_width", "pcie_width_max", "pcie_generation")
    return count if field.endswith(whole) else plain


DIALECT = Dialect(
    anchor="runwatch_gpu_utilization_ratio",
    node="node",
    uuid="gpu",
    index="index",
    model="name",
    bus="pci_bus_id",
    info="runwatch_gpu_info",
    into=(
        Into("runwatch_gpu_lost", "lost", flag),
        *(Into(metric, field, _convert(field)) for field, (metric, _) in GAUGES.items()),
        *(Into(f"{metric}_total", field, _convert(field)) for field, (metric, _) in COUNTERS.items()),
        *(
            Into("runwatch_gpu_ecc_errors_total", field, count, {"counter": which, "kind": kind})
            for field, (which, kind) in ECC.items()
        ),
    ),
    reason_label=("runwatch_gpu_throttled_ratio", "reason"),
    xid_count=("runwatch_gpu_xid_errors_total", "xid"),
    notes=("log lines, hosts and the text of XIDs are seen only where the agent itself is asked",),
)
PLUGIN = exporter("runwatch_agent", DIALECT, port=9876)
