"""nvidia_gpu_exporter: nvidia_smi_*, one series per field of `nvidia-smi --query-gpu`."""

from __future__ import annotations

from watcher.telemetry._api import exporter
from watcher.telemetry._dialect import Dialect, Into, count, flag, hertz

P = "nvidia_smi_"
REASONS = {
    "hw_slowdown": "hw_slowdown",
    "hw_thermal_slowdown": "hw_thermal",
    "hw_power_brake_slowdown": "hw_power_brake",
    "sw_thermal_slowdown": "sw_thermal",
    "sw_power_cap": "sw_power_cap",
}
ECC = f"{P}ecc_errors"
DIALECT = Dialect(
    anchor=f"{P}utilization_gpu_ratio",
    node="instance",
    uuid="uuid",
    uuid_prefix="GPU-",
    index="index",
    model="name",
    bus="pci_bus_id",
    info=f"{P}gpu_info",
    into=(
        Into(f"{P}power_draw_watts", "power_watts"),
        Into(f"{P}power_draw_average_watts", "power_watts"),
        Into(f"{P}power_draw_instant_watts", "power_instant_watts"),
        Into(f"{P}enforced_power_limit_watts", "power_limit_watts"),
        Into(f"{P}power_limit_watts", "power_limit_watts"),
        Into(f"{P}energy_joules_total", "energy_joules"),
        Into(f"{P}utilization_gpu_ratio", "utilization_ratio"),
        Into(f"{P}utilization_memory_ratio", "memory_utilization_ratio"),
        Into(f"{P}memory_used_bytes", "memory_used_bytes", count),
        Into(f"{P}memory_total_bytes", "memory_total_bytes", count),
        Into(f"{P}temperature_gpu", "temperature_celsius"),
        Into(f"{P}temperature_memory", "memory_temperature_celsius"),
        Into(f"{P}clocks_current_sm_clock_hz", "sm_clock_mhz", hertz),
        Into(f"{P}clocks_max_sm_clock_hz", "sm_clock_max_mhz", hertz),
        Into(f"{P}compute_apps", "process_count", count),
        Into(f"{P}mig_mode_current", "mig", flag),
        Into(f"{P}ecc_mode_current", "ecc_enabled", flag),
        Into(f"{ECC}_corrected_volatile_total", "ecc_volatile_corrected_count", count),
        Into(f"{ECC}_uncorrected_volatile_total", "ecc_volatile_uncorrected_count", count),
        Into(f"{ECC}_corrected_aggregate_total", "ecc_aggregate_corrected_count", count),
        Into(f"{ECC}_uncorrected_aggregate_total", "ecc_aggregate_uncorrected_count", count),
        Into(f"{P}remapped_rows_correctable", "remapped_correctable_count", count),
        Into(f"{P}remapped_rows_uncorrectable", "remapped_uncorrectable_count", count),
        Into(f"{P}remapped_rows_pending", "remap_pending", flag),
        Into(f"{P}remapped_rows_failure", "remap_failed", flag),
        Into(f"{P}pcie_link_width_current", "pcie_width", count),
        Into(f"{P}pcie_link_width_max", "pcie_width_max", count),
        Into(f"{P}pcie_link_gen_current", "pcie_generation", count),
    ),
    reasons={
        f"{P}{old_or_new}_{name}": reason
        for old_or_new in ("clocks_event_reasons", "clocks_throttle_reasons")
        for name, reason in REASONS.items()
    },
    xid_count=(f"{P}xid_errors_total", "xid"),
    xid_at=f"{P}xid_last_timestamp_seconds",
    heartbeat=f"{P}last_collect_success_timestamp_seconds",
    success=f"{P}last_collect_success",
    notes=("XIDs come only from its NVML backend; with the default one signature xid sees nothing",),
)
PLUGIN = exporter("nvidia_gpu_exporter", DIALECT, port=9835)
