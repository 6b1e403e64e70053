"""How a GPU is connected: PCIe, NVLink, the fabric of NVSwitches."""

from __future__ import annotations

import ctypes
from typing import Any

from watcher.sources.nvml_field import RARELY, SELDOM, Field, Handle, Nvml, Unsupported, count, number

PCIE_WAYS = (0, 1)  # sent, received
FABRIC_STATES = {1: "not_started", 2: "in_progress", 3: "completed"}
FABRIC_HEALTH = {0: "degraded_bandwidth", 4: "route_unhealthy"}  # two bits of the mask: 1 = it is so


def _pcie(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    return {
        "pcie_width": count(nvml.nvmlDeviceGetCurrPcieLinkWidth(handle)),
        "pcie_width_max": count(nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
    }


def _pcie_generation(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    return {"pcie_generation": count(nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle))}


def _pcie_replay(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    return {"pcie_replay_count": count(nvml.nvmlDeviceGetPcieReplayCounter(handle))}


def _pcie_bytes(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    """Measured over 20 ms, during which the call waits. Newer cards count, see nvml_values."""
    both = [nvml.nvmlDeviceGetPcieThroughput(handle, way) for way in PCIE_WAYS]
    known = [number(value, 1) for value in both]
    return {"pcie_bytes_per_second": None if None in known else 1000.0 * sum(filter(None, known))}


def _fabric(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    """How far the GPU is in joining the NVSwitch fabric, and whether that is well."""
    info = nvml.c_nvmlGpuFabricInfoV_t()
    nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    state = FABRIC_STATES.get(info.state & 0xFF)  # a byte; the bindings read four
    if state is None:
        raise Unsupported
    if state == "completed" and info.status != 0:
        state = "failed"
    elif state == "completed":
        bad = [name for shift, name in FABRIC_HEALTH.items() if info.healthMask >> shift & 3 == 1]
        state = bad[0] if bad else state
    return {"fabric_state": state}


def _nvlinks(nvml: Nvml, handle: Handle) -> dict[str, Any]:
    """Links that are active. One that has never been so may not be wired at all."""
    active = []
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            if nvml.nvmlDeviceGetNvLinkState(handle, link):
                active.append(link)
        except nvml.NVMLError as error:
            if link and error.value == nvml.NVML_ERROR_NOT_SUPPORTED:
                continue
            if error.value == nvml.NVML_ERROR_INVALID_ARGUMENT:  # there are no more links than these
                break
            raise
    return {"nvlinks_active": active}


PCIE_MEASURED = Field("pcie_throughput", _pcie_bytes, RARELY)
LINK_FIELDS = (
    Field("pcie_width", _pcie, SELDOM),
    Field("pcie_generation", _pcie_generation, SELDOM),
    Field("pcie_replay_count", _pcie_replay, SELDOM),
    Field("nvlink_state", _nvlinks, SELDOM),
    Field("fabric_state", _fabric, RARELY),
    PCIE_MEASURED,
)
