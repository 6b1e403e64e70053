"""Readings that NVML gives as field values: one call for all of them, each with a return code of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from watcher.sources.nvml_field import NOT_AVAILABLE, SELDOM, Handle, Nvml

ALL_LINKS = 0xFFFF_FFFF  # as scope: the sum over all NVLinks
RENUMBERED = 590  # the first driver with the ids of the header of CUDA 13.1; those before mean something else by them
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
    Value("throttle_ns.sw_thermal", "NVML_FI_DEV_PERF_POLICY_THERMAL"),
    Value("throttle_ns.hw_thermal", "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN"),
    Value("throttle_ns.hw_power_brake", "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN"),
    Value("pcie_bytes", "NVML_FI_DEV_PCIE_COUNT_TX_BYTES"),
    Value("pcie_bytes", "NVML_FI_DEV_PCIE_COUNT_RX_BYTES"),
    Value("nvlink_bytes", "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX", lambda v: v * 1024, ALL_LINKS),
    Value("nvlink_bytes", "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX", lambda v: v * 1024, ALL_LINKS),
    Value("nvlink_error_count", "NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"),
    Value("nvlink_error_count", "NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"),
    Value("nvlink_error_count", "NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL"),
    Value("retired_pages_count", "NVML_FI_DEV_RETIRED_SBE"),
    Value("retired_pages_count", "NVML_FI_DEV_RETIRED_DBE"),
    Value("pages_pending", "NVML_FI_DEV_RETIRED_PENDING"),
    Value(
        "recovery_action",
        "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION",
        lambda v: RECOVERY_ACTIONS[v] if 0 <= v < len(RECOVERY_ACTIONS) else f"action {v}",
    ),
)


# (id in drivers before RENUMBERED, id since)
MOVED_IDS = {
    "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN": (252, 270),
    "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN": (253, 271),
}
# of each link, where the driver gives no sum over them: up to Hopper the errors, from Blackwell on all
LINK_VALUES = (
    Value("nvlink_bytes", "NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES"),
    Value("nvlink_bytes", "NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES"),
    Value("nvlink_error_count", "NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY"),
    Value("nvlink_error_count", "NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY"),
    Value("nvlink_error_count", "NVML_FI_DEV_NVLINK_ERROR_DL_CRC"),
    Value("nvlink_error_count", "NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS"),
    Value("nvlink_error_count", "NVML_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS"),
    Value("nvlink_error_count", "NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS"),
    Value("nvlink_error_count", "NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS"),
)


class FieldValues:
    """Of one GPU. What is asked shrinks to what the driver knows. `driver`: its version."""

    def __init__(self, driver: str | None = None) -> None:
        self._driver = driver
        self._wanted = list(VALUES)
        self._asked = False

    def read(self, nvml: Nvml, handle: Handle) -> dict[str, Any]:
        """Values by name, a dotted name as a mapping. Raises NVMLError where the whole call fails."""
        ids = [(value, number) for value in self._wanted if (number := _id(nvml, value.constant, self._driver))]
        known, out = _read(nvml, handle, [(value, number, value.scope) for value, number in ids])
        self._wanted, self._asked = known, True
        return out

    def gives(self, name: str) -> bool:
        return self._asked and any(value.name == name for value in self._wanted)

    def unsupported(self) -> set[str]:
        known = {value.name for value in self._wanted}
        return {value.name for value in VALUES if value.name not in known} if self._asked else set()


class LinkValues:
    """Of the NVLinks of one GPU, added up. Errors are read seldom: there are many counters."""

    def __init__(self) -> None:
        self._wanted = list(LINK_VALUES)
        self._errors: dict[str, Any] = {}
        self._reads = 0

    def read(self, nvml: Nvml, handle: Handle, links: Iterable[int], names: Collection[str]) -> dict[str, Any]:
        """`names`: what is not known in another way."""
        errors = self._reads % SELDOM == 0
        self._reads += 1
        asked = [v for v in self._wanted if v.name in names and (errors or v.name != "nvlink_error_count")]
        ids = [(value, number) for value in asked if (number := _id(nvml, value.constant, None))]
        known, out = _read(nvml, handle, [(value, number, link) for link in links for value, number in ids])
        self._wanted = [value for value in self._wanted if value in known or value not in asked]
        if errors:
            self._errors = {name: count for name, count in out.items() if name == "nvlink_error_count"}
        return {**self._errors, **out}


def _id(nvml: Nvml, constant: str, driver: str | None) -> int | None:
    """None where the bindings do not know it, or where it is not known which of its two ids the driver means."""
    if constant in MOVED_IDS:
        major = (driver or "").partition(".")[0]
        return MOVED_IDS[constant][int(major) >= RENUMBERED] if major.isdigit() else None
    return getattr(nvml, constant, None)


def _read(nvml: Nvml, handle: Handle, asked: list[tuple[Value, int, int]]) -> tuple[list[Value], dict[str, Any]]:
    """The values that the driver knows, and what it says of them; those of one name are added up."""
    known: list[Value] = []
    out: dict[str, Any] = {}
    if not asked:
        return known, out
    answers = nvml.nvmlDeviceGetFieldValues(handle, [(number, scope) for _, number, scope in asked])
    for (value, _, _), answer in zip(asked, answers, strict=True):
        if answer.nvmlReturn in NEVER_HERE or _untouched(nvml, answer):
            continue
        known.append(value)
        plain = _plain(nvml, answer)
        if answer.nvmlReturn == nvml.NVML_SUCCESS and plain not in NOT_AVAILABLE:
            group, _, key = value.name.partition(".")
            place, key = (out.setdefault(group, {}), key) if key else (out, group)
            number = value.convert(plain)
            place[key] = place[key] + number if key in place else number
    return known, out


def _untouched(nvml: Nvml, answer: Any) -> bool:
    """The driver passed over it: as it was sent it reads as a success, and as a number of a type that none has."""
    return not (answer.nvmlReturn or answer.valueType != nvml.NVML_VALUE_TYPE_DOUBLE or answer.value.ullVal)


def _plain(nvml: Nvml, answer: Any) -> Any:
    names = {
        nvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
        nvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
        nvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
        nvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
        nvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    }
    return getattr(answer.value, names.get(answer.valueType, "uiVal"))
