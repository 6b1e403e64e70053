"""NVIDIA's dcgm-exporter: DCGM_FI_DEV_*. What it tells is what its list of counters holds."""

from __future__ import annotations

from watcher.telemetry._api import exporter
from watcher.telemetry._dialect import Dialect, Into, count, flag, mebibytes, milli, percent

P = "DCGM_FI_DEV_"
DIALECT = Dialect(
    anchor=f"{P}GPU_UTIL",
    node="Hostname",
    uuid="UUID",
    index="gpu",
    model="modelName",
    bus="pci_bus_id",
    mig=("GPU_I_ID", "GPU_I_PROFILE"),
    into=(
        Into(f"{P}POWER_USAGE", "power_watts"),
        Into(f"{P}POWER_USAGE_INSTANT", "power_instant_watts"),
        Into(f"{P}ENFORCED_POWER_LIMIT", "power_limit_watts"),
        Into(f"{P}POWER_MGMT_LIMIT", "power_limit_watts"),
        Into(f"{P}TOTAL_ENERGY_CONSUMPTION", "energy_joules", milli),
        Into(f"{P}GPU_UTIL", "utilization_ratio", percent),
        Into(f"{P}MEM_COPY_UTIL", "memory_utilization_ratio", percent),
        Into(f"{P}FB_USED", "memory_used_bytes", mebibytes),
        Into(f"{P}FB_TOTAL", "memory_total_bytes", mebibytes),
        Into(f"{P}GPU_TEMP", "temperature_celsius"),
        Into(f"{P}MEMORY_TEMP", "memory_temperature_celsius"),
        Into(f"{P}SM_CLOCK", "sm_clock_mhz"),
        Into(f"{P}MAX_SM_CLOCK", "sm_clock_max_mhz"),
        Into(f"{P}ECC_CURRENT", "ecc_enabled", flag),
        Into(f"{P}ECC_SBE_VOL_TOTAL", "ecc_volatile_corrected_count", count),
        Into(f"{P}ECC_DBE_VOL_TOTAL", "ecc_volatile_uncorrected_count", count),
        Into(f"{P}ECC_SBE_AGG_TOTAL", "ecc_aggregate_corrected_count", count),
        Into(f"{P}ECC_DBE_AGG_TOTAL", "ecc_aggregate_uncorrected_count", count),
        Into(f"{P}CORRECTABLE_REMAPPED_ROWS", "remapped_correctable_count", count),
        Into(f"{P}UNCORRECTABLE_REMAPPED_ROWS", "remapped_uncorrectable_count", count),
        Into(f"{P}ROW_REMAP_PENDING", "remap_pending", flag),
        Into(f"{P}ROW_REMAP_FAILURE", "remap_failed", flag),
        Into(f"{P}PCIE_REPLAY_COUNTER", "pcie_replay_count", count),
        Into(f"{P}NVLINK_REPLAY_ERROR_COUNT_TOTAL", "nvlink_error_count", count),
        Into(f"{P}NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "nvlink_error_count", count),
        Into(f"{P}PCIE_LINK_WIDTH", "pcie_width", count),
        Into(f"{P}PCIE_MAX_LINK_WIDTH", "pcie_width_max", count),
        Into(f"{P}PCIE_LINK_GEN", "pcie_generation", count),
    ),
    free=f"{P}FB_FREE",
    reserved=f"{P}FB_RESERVED",
    reason_bits=(f"{P}CLOCKS_EVENT_REASONS", f"{P}CLOCK_THROTTLE_REASONS"),
    xid_last=f"{P}XID_ERRORS",
    notes=(
        "its default counters hold no power limit: until the run's own power is learnt, a hang is told by the step "
        "counter alone; set power_limit_watts here, or add DCGM_FI_DEV_POWER_MGMT_LIMIT to its counters",
        "its default counters hold no ECC counts and no throttle reasons: ecc_uncorrectable, ecc_rate and "
        "gpu_throttled see nothing; deploy/exporters.md has the lines to add",
        "of XIDs it keeps only the last code: the same one again, and the first of two at once, are not seen",
    ),
)
PLUGIN = exporter("dcgm_exporter", DIALECT, port=9400)
