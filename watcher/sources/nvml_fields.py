"""Which NVML call gives which field of a GPU reading. New names first, the old one where the driver lacks it.

What is cheap and changes is read each time, what is dear or changes rarely every few times.
"""

from __future__ import annotations

from typing import Any

from watcher.sources.nvml_field import SELDOM, Field, Handle, Nvml, Unsupported, count, newest, number, text
from watcher.sources.nvml_links import LINK_FIELDS

SRAM_LOCATION, DRAM_LOCATION = 7, 2
REASONS = {
    "hw_slowdown": "HwSlowdown",
    "hw_thermal": "HwThermalSlowdown",
    "hw_power_brake": "HwPowerBrakeSlowdown",
    "sw_thermal": "SwThermalSlowdown",
    "sw_power_cap": "SwPowerCap",
}


def _power(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    return {"power_watts": number(nvml.nvmlDeviceGetPowerUsage(handle), 1000)}


def _limit(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    value = newest(
        nvml,
        lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle),
        lambda: nvml.nvmlDeviceGetPowerManagementLimit(handle),
    )
    return {"power_limit_watts": number(value, 1000)}


def _energy(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    return {"energy_joules": number(nvml.nvmlDeviceGetTotalEnergyConsumption(handle), 1000)}


def _utilization(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    return {
        "utilization_ratio": number(rates.gpu, 100),
        "memory_utilization_ratio": number(rates.memory, 100),
    }


def _memory(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    info = newest(
        nvml,
        lambda: nvml.nvmlDeviceGetMemoryInfo(handle),
        lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2),
    )
    if not info.total:  # a part that shares the memory of the host
        raise Unsupported
    return {"memory_used_bytes": count(info.used), "memory_total_bytes": count(info.total)}


def _temperature(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    value = newest(
        nvml,
        lambda: nvml.nvmlDeviceGetTemperatureV(handle, nvml.NVML_TEMPERATURE_GPU),
        lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
    )
    return {"temperature_celsius": None if value == -1 else number(value, 1)}  # -1: "no value" where it is signed


def _clock(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    return {"sm_clock_mhz": number(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM), 1)}


def _clock_max(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    return {"sm_clock_max_mhz": number(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM), 1)}


def _throttled_now(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    bits = newest(
        nvml,
        lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
        lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
    )
    return {"throttled_now": {name: bool(bits & _reason(nvml, end)) for name, end in REASONS.items()}}


def _reason(nvml: Nvml, end: str) -> int:
    """The bit by its new name, or by the one that bindings had before."""
    new = getattr(nvml, f"nvmlClocksEventReason{end}", None)
    return int(getattr(nvml, f"nvmlClocksThrottleReason{end}") if new is None else new)


def _ecc(kind: str, counter: str, every: int = 1) -> Field:
    name = f"ecc_{counter}_{kind}_count"

    def read(nvml: Nvml, handle: Handle) -> dict[str, Any]:
        error = (
            nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED if kind == "uncorrected" else nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED
        )
        which = nvml.NVML_VOLATILE_ECC if counter == "volatile" else nvml.NVML_AGGREGATE_ECC
        return {name: count(nvml.nvmlDeviceGetTotalEccErrors(handle, error, which))}

    return Field(name, read, every)


def _ecc_place(place: str, location: int) -> Field:
    name = f"ecc_volatile_uncorrected_{place}_count"

    def read(nvml: Nvml, handle: Handle) -> dict[str, Any]:
        error, which = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        return {name: count(nvml.nvmlDeviceGetMemoryErrorCounter(handle, error, which, location))}

    return Field(name, read)


def _ecc_enabled(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    current, _ = nvml.nvmlDeviceGetEccMode(handle)
    return {"ecc_enabled": current == 1}


def _remap(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    correctable, uncorrectable, pending, failed = nvml.nvmlDeviceGetRemappedRows(handle)
    return {
        "remapped_correctable_count": count(correctable),
        "remapped_uncorrectable_count": count(uncorrectable),
        "remap_pending": bool(pending),
        "remap_failed": bool(failed),
    }


def _processes(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    """By the newest version of the call that bindings and driver share."""
    running = newest(
        nvml,
        lambda: nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle),
        lambda: nvml.nvmlDeviceGetComputeRunningProcesses_v2(handle),
    )
    pids = [process.pid for process in running]
    return {"process_count": len(pids), "pids": pids}


def _mig(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    """With MIG on, its devices: UUID -> memory in use and in all, where they tell."""
    current, _ = nvml.nvmlDeviceGetMigMode(handle)
    if current != 1:
        return {"mig": False}
    devices: dict[str, tuple[int, int] | None] = {}
    for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
            uuid = text(nvml.nvmlDeviceGetUUID(device))
        except (nvml.NVMLError, ValueError):  # an empty place
            continue
        devices[uuid] = None
        try:
            info = nvml.nvmlDeviceGetMemoryInfo(device)
            devices[uuid] = (int(info.used), int(info.total))
        except nvml.NVMLError:
            continue
    return {"mig": True, "mig_devices": devices}


FIELDS: tuple[Field, ...] = (
    Field("power_watts", _power),
    Field("power_limit_watts", _limit),
    Field("energy_joules", _energy),
    Field("utilization_ratio", _utilization),
    Field("memory_used_bytes", _memory),
    Field("temperature_celsius", _temperature),
    Field("sm_clock_mhz", _clock),
    Field("throttle_reasons", _throttled_now),
    _ecc("corrected", "volatile"),
    _ecc("uncorrected", "volatile"),
    _ecc_place("sram", SRAM_LOCATION),
    _ecc_place("dram", DRAM_LOCATION),
    _ecc("corrected", "aggregate", SELDOM),
    _ecc("uncorrected", "aggregate", SELDOM),
    Field("ecc_enabled", _ecc_enabled, SELDOM),
    Field("remap_pending", _remap, SELDOM),
    Field("sm_clock_max_mhz", _clock_max, SELDOM),
    Field("process_count", _processes, SELDOM),
    Field("mig", _mig, SELDOM),
    *LINK_FIELDS,
)
