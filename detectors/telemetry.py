"""What is known of the machines: readings of GPUs and nodes, and the bounded history behind them.

Everywhere `None` (NaN in arrays) = not known, 0 = zero. A reading that failed is absent, never the last good one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.floating[Any]]
    Instants = npt.NDArray[np.float64]

GpuState = Literal["ok", "lost", "unreadable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One GPU at one moment, as its agent sent it. Not supported = None."""

    uuid: str
    index: int
    name: str = ""
    serial: str | None = None
    pci_bus_id: str | None = None
    minor: int | None = None  # of its /dev/nvidiaN: how schedulers count
    state: GpuState = "ok"  # lost: NVML says GPU_IS_LOST; unreadable: any other error on the whole device
    error: str | None = None
    unread_seconds: float | None = None  # of one that does not answer: since it last did, when it was tried
    mig: bool = False
    mig_devices: Mapping[str, tuple[int, int] | None] | None = None  # with MIG on: UUID -> memory used, total bytes
    unsupported: tuple[str, ...] = ()  # fields that this card or driver does not have
    power_watts: float | None = None
    power_limit_watts: float | None = None  # enforced, same scope as power_watts
    power_instant_watts: float | None = None  # where power_watts is an average over a second
    energy_joules: float | None = None
    utilization_ratio: float | None = None  # share of time in which any kernel ran, nothing more
    memory_utilization_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    temperature_celsius: float | None = None
    memory_temperature_celsius: float | None = None
    sm_clock_mhz: float | None = None
    sm_clock_max_mhz: float | None = None
    process_count: int | None = None
    ecc_enabled: bool | None = None
    ecc_volatile_corrected_count: int | None = None
    ecc_volatile_uncorrected_count: int | None = None
    ecc_volatile_uncorrected_sram_count: int | None = None
    ecc_volatile_uncorrected_dram_count: int | None = None
    ecc_aggregate_corrected_count: int | None = None
    ecc_aggregate_uncorrected_count: int | None = None
    remapped_correctable_count: int | None = None
    remapped_uncorrectable_count: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retired_pages_count: int | None = None
    throttle_ratios: Mapping[str, float] | None = None  # per reason: share of time since the last reading
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_generation: int | None = None
    pcie_bytes_per_second: float | None = None  # both directions
    pcie_replay_count: int | None = None
    nvlink_error_count: int | None = None
    nvlink_bytes_per_second: float | None = None  # both directions, all links
    nvlink_down_count: int | None = None  # links that were active before and are not now
    fabric_state: str | None = None  # completed; not_started, in_progress, failed, degraded_bandwidth, route_unhealthy
    recovery_action: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReading:
    """The node apart from its GPUs; rates are computed on the node between two readings."""

    boot_id: str | None = None
    uptime_seconds: float | None = None
    load_average: float | None = None  # over a minute
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    run_memory_bytes: int | None = None  # of the processes that hold GPUs
    run_memory_limit_bytes: int | None = None
    run_cpu_cores: float | None = None  # CPU seconds a second of those processes
    run_read_bytes_per_second: float | None = None
    run_write_bytes_per_second: float | None = None
    network_bytes_per_second: float | None = None
    processes_in_disk_sleep: tuple[str, ...] = ()  # state D, "pid name"
    shm_used_bytes: int | None = None
    shm_total_bytes: int | None = None
    disks: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # mount -> used, total bytes
    links_down: tuple[str, ...] = ()
    link_flaps: Mapping[str, int] = field(default_factory=dict)  # port -> carrier changes since boot


@dataclass(frozen=True, slots=True, kw_only=True)
class XidEvent:
    """One XID of the driver, merged from NVML events and the kernel log."""

    at: float
    code: int
    gpu_uuid: str | None = None
    pci_bus_id: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceHealth:
    """Health of one telemetry source on a node; `error` is a readable line."""

    ok: bool
    error: str | None = None
    kind: str | None = None  # driver_mismatch | no_permission | no_library | no_devices | stuck | crashed | ...
    age_seconds: float | None = None  # since its last success


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node of the run now. `gpus` is empty when its readings are older than three polls."""

    name: str
    reachable: bool | None = None  # None: never asked yet
    failures_running: int = 0
    error: str | None = None
    silent_polls: Mapping[str, int] = field(default_factory=dict)  # per source while others of the node answer
    answered_at: float | None = None
    skew_seconds: float | None = None
    agent_version: str | None = None
    gpus: tuple[GpuReading, ...] = ()
    gpus_fresh: bool = False
    expected_gpus: int | None = None  # from config, or the largest inventory seen
    missing_uuids: tuple[str, ...] = ()  # in the inventory, not in the latest fresh readings
    lost_at: Mapping[str, float] = field(default_factory=dict)  # uuid -> since when it is lost or missing
    inventory: Mapping[str, int] = field(default_factory=dict)  # uuid -> last index
    corrected_rates: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # uuid -> ECC per second, usual
    ecc_baseline: Mapping[str, int] = field(default_factory=dict)  # uuid -> volatile uncorrected when first seen
    health: Mapping[str, SourceHealth] = field(default_factory=dict)
    host: HostReading | None = None
    xids: tuple[XidEvent, ...] = ()
    quiet_since_at: float | None = None  # the run's processes use neither CPU nor disk nor network; None: who knows
    memory_ratios: tuple[tuple[float, float], ...] = ()  # (at, share in use) of the last hour, a point a minute
    flaps_at: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # port -> when it went down
    link_error_rates: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # uuid -> PCIe, NVLink a minute
    throttled: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # uuid -> reason -> share of minutes


@dataclass(frozen=True, slots=True)
class GpuRef:
    node: str
    uuid: str
    index: int
    name: str = ""

    def __str__(self) -> str:
        return f"{self.node} gpu {self.index}"


@dataclass(frozen=True, slots=True)
class History:
    """The last half hour of a run, one row per evaluation, one column per GPU in the order of `gpus`.

    at [T] unix seconds, ascending; columns [T, G], NaN = not known.
    progressing [T] bool: the run was known to make progress at that row.
    """

    gpus: Sequence[GpuRef]
    at: Instants
    power_watts: Floats
    utilization_ratio: Floats
    memory_utilization_ratio: Floats
    memory_used_ratio: Floats
    temperature_celsius: Floats
    sm_clock_mhz: Floats
    progressing: npt.NDArray[np.bool_]
    power_limit_watts: Floats = field(default_factory=lambda: _no_numbers())  # [G], latest

    def rows_since(self, at: float) -> slice:
        """Rows taken at or after `at`."""
        return slice(int(self.at.searchsorted(at, side="left")), None)

    def __len__(self) -> int:
        return len(self.at)


def _no_numbers() -> Floats:
    import numpy as np  # an agent has no history, and should not weigh as if it had

    return np.zeros(0, np.float32)


def empty_history(gpus: Sequence[GpuRef] = ()) -> History:
    import numpy as np

    nothing: dict[str, Any] = {
        name: np.zeros((0, len(gpus)), np.float32)
        for name in (
            "power_watts", "utilization_ratio", "memory_utilization_ratio", "memory_used_ratio",
            "temperature_celsius", "sm_clock_mhz",
        )
    }  # fmt: skip
    return History(
        gpus=gpus,
        at=np.zeros(0, np.float64),
        progressing=np.zeros(0, np.bool_),
        power_limit_watts=np.full(len(gpus), np.nan, np.float32),
        **nothing,
    )
