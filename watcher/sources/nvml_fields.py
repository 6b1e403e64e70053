"""Which NVML call gives which field of a GPU reading. New names first, the old one where the driver lacks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Nvml = Any  # the module `pynvml`
Handle = Any
NOT_AVAILABLE = {0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF}  # NVML's word for "no value" where it reports success
SRAM_LOCATION, DRAM_LOCATION = 7, 2


@dataclass(frozen=True, slots=True)
class Field:
    """`read(nvml, handle)` answers values by the name they have in GpuReading."""

    name: str  # what is remembered as not supported, and named in messages
    read: Callable[[Nvml, Handle], dict[str, Any]]


def _power(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    return {"power_watts": _number(nvml.nvmlDeviceGetPowerUsage(handle), 1000)}


def _limit(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    return {"power_limit_watts": _number(nvml.nvmlDeviceGetEnforcedPowerLimit(handle), 1000)}


def _energy(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    return {"energy_joules": _number(nvml.nvmlDeviceGetTotalEnergyConsumption(handle), 1000)}


def _utilization(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    return {
        "utilization_ratio": _number(rates.gpu, 100),
        "memory_utilization_ratio": _number(rates.memory, 100),
    }


def _memory(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    info = nvml.nvmlDeviceGetMemoryInfo(handle)
    return {"memory_used_bytes": _count(info.used), "memory_total_bytes": _count(info.total)}


def _temperature(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    try:
        value = nvml.nvmlDeviceGetTemperatureV(handle, nvml.NVML_TEMPERATURE_GPU)
    except (AttributeError, nvml.NVMLError_FunctionNotFound, nvml.NVMLError_NotSupported):
        value = nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
    return {"temperature_celsius": _number(value, 1)}


def _clock(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    return {"sm_clock_mhz": _number(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM), 1)}


def _clock_max(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    return {"sm_clock_max_mhz": _number(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM), 1)}


def _ecc(kind: str, counter: str) -> Field:
    name = f"ecc_{counter}_{kind}_count"

    def read(nvml: Nvml, handle: Handle) -> dict[str, Any]:
        error = (
            nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED if kind == "uncorrected" else nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED
        )
        which = nvml.NVML_VOLATILE_ECC if counter == "volatile" else nvml.NVML_AGGREGATE_ECC
        return {name: _count(nvml.nvmlDeviceGetTotalEccErrors(handle, error, which))}

    return Field(name, read)


def _ecc_place(place: str, location: int) -> Field:
    name = f"ecc_volatile_uncorrected_{place}_count"

    def read(nvml: Nvml, handle: Handle) -> dict[str, Any]:
        error, which = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        return {name: _count(nvml.nvmlDeviceGetMemoryErrorCounter(handle, error, which, location))}

    return Field(name, read)


def _remap(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    correctable, uncorrectable, pending, failed = nvml.nvmlDeviceGetRemappedRows(handle)
    return {
        "remapped_correctable_count": _count(correctable),
        "remapped_uncorrectable_count": _count(uncorrectable),
        "remap_pending": bool(pending),
        "remap_failed": bool(failed),
    }


def _processes(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    return {"process_count": len(nvml.nvmlDeviceGetComputeRunningProcesses(handle))}


def _mig(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    current, _ = nvml.nvmlDeviceGetMigMode(handle)
    return {"mig": current == 1}


FIELDS: tuple[Field, ...] = (
    Field("power_watts", _power),
    Field("power_limit_watts", _limit),
    Field("energy_joules", _energy),
    Field("utilization_ratio", _utilization),
    Field("memory_used_bytes", _memory),
    Field("temperature_celsius", _temperature),
    Field("sm_clock_mhz", _clock),
    Field("sm_clock_max_mhz", _clock_max),
    _ecc("corrected", "volatile"),
    _ecc("uncorrected", "volatile"),
    _ecc("corrected", "aggregate"),
    _ecc("uncorrected", "aggregate"),
    _ecc_place("sram", SRAM_LOCATION),
    _ecc_place("dram", DRAM_LOCATION),
    Field("remap_pending", _remap),
    Field("process_count", _processes),
    Field("mig", _mig),
)


def _number(value: Any, divisor: int) -> float | None:
    return None if value in NOT_AVAILABLE else value / divisor


def _count(value: Any) -> int | None:
    return None if value in NOT_AVAILABLE else int(value)
