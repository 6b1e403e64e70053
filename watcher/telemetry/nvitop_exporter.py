"""nvitop-exporter: gpu_*, with the unit at the end of each name."""

from __future__ import annotations

from watcher.telemetry._api import exporter
from watcher.telemetry._dialect import Dialect, Into, mebibytes, percent

DIALECT = Dialect(
    anchor="gpu_utilization_Percentage",
    node="hostname",
    uuid="uuid",
    index="index",
    model="devicename",
    into=(
        Into("gpu_power_usage_W", "power_watts"),
        Into("gpu_power_limit_W", "power_limit_watts"),
        Into("gpu_utilization_Percentage", "utilization_ratio", percent),
        Into("gpu_memory_utilization_Percentage", "memory_utilization_ratio", percent),
        Into("gpu_memory_used_MiB", "memory_used_bytes", mebibytes),
        Into("gpu_memory_total_MiB", "memory_total_bytes", mebibytes),
        Into("gpu_temperature_C", "temperature_celsius"),
        Into("gpu_clock_sm_MHz", "sm_clock_mhz"),
    ),
    heartbeat="host_uptime_Second",
    notes=("it tells nothing of XIDs, ECC, row remapping and throttling: those signatures see nothing",),
)
PLUGIN = exporter("nvitop_exporter", DIALECT, port=8000)
