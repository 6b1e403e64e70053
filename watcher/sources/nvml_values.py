"""Readings that NVML gives as field values: one call for all of them, each with a return code of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from watcher.sources.nvml_fields import Handle, Nvml

ALL_LINKS = 0xFFFF_FFFF  # as scope: the sum over all NVLinks
NEVER_HERE = {2, 3, 13}  # invalid argument (an id the driver does not know), not supported, function not found
RECOVERY_ACTIONS = (
    "none", "gpu_reset", "node_reboot", "drain_p2p", "drain_and_reset", "recover_imex_domain", "bus_reset",
    "system_reboot",
)  # fmt: skip


class Value(NamedTuple):
    """`constant`: its name in pynvml, which older bindings may lack. Values of one `name` are added up."""

    name: str
    constant: str
    convert: Callable[[int], Any] = int
    scope: int = 0


VALUES = (
    Value("power_instant_watts", "NVML_FI_DEV_POWER_INSTANT", lambda v: v / 1000),
    Value("memory_temperature_celsius", "NVML_FI_DEV_MEMORY_TEMP", float),
    Value("throttle_ns.sw_power_cap", "NVML_FI_DEV_PERF_POLICY_POWER"),
    Value("throttle_ns.sw_thermal", "NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN"),
    Value("throttle_ns.hw_thermal", "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN"),
    Value("throttle_ns.hw_power_brake", "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN"),
    Value("nvlink_bytes", "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX", lambda v: v * 1024, ALL_LINKS),
    Value("nvlink_bytes", "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX", lambda v: v * 1024, ALL_LINKS),
    Value("nvlink_error_count", "NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"),
    Value("nvlink_error_count", "NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"),
    Value("nvlink_error_count", "NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL"),
    Value("retired_pages_count", "NVML_FI_DEV_RETIRED_SBE"),
    Value("retired_pages_count", "NVML_FI_DEV_RETIRED_DBE"),
    Value(
        "recovery_action",
        "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION",
        lambda v: RECOVERY_ACTIONS[v] if 0 <= v < len(RECOVERY_ACTIONS) else f"action {v}",
    ),
)


class FieldValues:
    """Of one GPU. `wanted` shrinks to what the driver knows."""

    def __init__(self) -> None:
        self.wanted = list(VALUES)
        self.asked = False

    def read(self, nvml: Nvml, handle: Handle) -> dict[str, Any]:
        """Values by name, a dotted name as a mapping. Raises NVMLError where the whole call fails."""
        self.wanted = [value for value in self.wanted if hasattr(nvml, value.constant)]
        if not self.wanted:
            return {}
        ids = [(getattr(nvml, value.constant), value.scope) for value in self.wanted]
        out: dict[str, Any] = {}
        known = []
        for value, answer in zip(self.wanted, nvml.nvmlDeviceGetFieldValues(handle, ids), strict=True):
            if answer.nvmlReturn in NEVER_HERE:
                continue
            known.append(value)
            if answer.nvmlReturn == nvml.NVML_SUCCESS:
                group, _, key = value.name.partition(".")
                place, key = (out.setdefault(group, {}), key) if key else (out, group)
                number = value.convert(_plain(nvml, answer))
                place[key] = place[key] + number if key in place else number
        self.wanted, self.asked = known, True
        return out

    def unsupported(self) -> set[str]:
        known = {value.name for value in self.wanted}
        return {value.name for value in VALUES if value.name not in known} if self.asked else set()


def _plain(nvml: Nvml, answer: Any) -> Any:
    names = {
        nvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
        nvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
        nvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
        nvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
        nvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    }
    return getattr(answer.value, names.get(answer.valueType, "uiVal"))
