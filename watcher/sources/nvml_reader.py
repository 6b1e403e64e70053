"""All GPUs of a node through pynvml, once. Runs in the child: a call may hang, crash or lie, so nothing here waits.

One broken field loses itself, one broken GPU loses itself; what is not supported is remembered and not asked again.
"""

from __future__ import annotations

import contextlib
from typing import Any

from watcher.sources.nvml_events import XidEvents
from watcher.sources.nvml_fields import EVERY_SLOW, FIELDS, Handle, Nvml
from watcher.sources.nvml_values import FieldValues

MAX_GPUS = 64
NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND = 3, 4, 9, 12, 13
GPU_IS_LOST, RESET_REQUIRED, MISMATCH = 15, 16, 18
KINDS = {
    NO_PERMISSION: "no_permission",
    DRIVER_NOT_LOADED: "no_driver",
    LIBRARY_NOT_FOUND: "no_library",
    MISMATCH: "driver_mismatch",
}
ADVICE = {
    "no_permission": "NVML refuses this user: the agent needs access to /dev/nvidiactl and /dev/nvidia*",
    "no_driver": "the NVIDIA driver is not loaded: nvidia-smi says the same",
    "no_library": "libnvidia-ml.so.1 is not here: no NVIDIA driver, or a container without the NVIDIA runtime",
    "driver_mismatch": "driver and library differ in version after an update: jobs go on, readings need a reboot",
    "no_devices": "NVML finds no GPU on this node",
}


class Card:
    """What is remembered of one GPU between two readings."""

    def __init__(self, fixed: dict[str, Any]) -> None:
        self.fixed = fixed
        self.unsupported: set[str] = set()
        self.values = FieldValues()
        self.slow: dict[str, dict[str, Any]] = {}  # field name -> what it said last
        self.links: set[int] = set()  # NVLinks that have been active


class NvmlReader:
    """`read()` answers `{"gpus": [...], "xids": [...]}` or `{"error": text, "kind": kind}`; never raises."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._events = XidEvents(nvml)
        self._ready = False
        self._count = -1
        self._reads = 0
        self._cards: dict[str, Card] = {}
        self._at_index: dict[int, str] = {}  # the UUID that an index had while the GPU could still tell
        self.driver_version: str | None = None

    def read(self) -> dict[str, Any]:
        try:
            count = self._enumerate()
        except self._nvml.NVMLError as error:
            self._close()
            kind = KINDS.get(error.value, "unknown")
            return {"error": ADVICE.get(kind) or f"NVML: {error}", "kind": kind}
        if count == 0:
            return {"error": ADVICE["no_devices"], "kind": "no_devices"}
        gpus = [gpu for index in range(min(count, MAX_GPUS)) if (gpu := self._gpu(index)) is not None]
        self._reads += 1
        return {"gpus": gpus, "xids": self._events.take(), "driver_version": self.driver_version}

    def _enumerate(self) -> int:
        """The number of devices; after a change of it NVML is started anew, for its indices have moved."""
        if self._ready:
            count = int(self._nvml.nvmlDeviceGetCount())
            if count == self._count:
                return count
            self._close()
        self._nvml.nvmlInit()
        self._ready = True
        self._at_index.clear()
        try:
            self.driver_version = _text(self._nvml.nvmlSystemGetDriverVersion())
        except self._nvml.NVMLError:
            self.driver_version = None
        self._count = int(self._nvml.nvmlDeviceGetCount())
        handles: dict[str, Handle] = {}
        for index in range(min(self._count, MAX_GPUS)):
            with contextlib.suppress(self._nvml.NVMLError):  # a lost one is told of by its reading
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                handles[_text(self._nvml.nvmlDeviceGetUUID(handle))] = handle
        self._events.watch(handles)
        return self._count

    def _close(self) -> None:
        if self._ready:
            self._events.close()
            with contextlib.suppress(self._nvml.NVMLError):  # it is gone either way
                self._nvml.nvmlShutdown()
        self._ready, self._count = False, -1

    def _gpu(self, index: int) -> dict[str, Any] | None:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(nvml.nvmlDeviceGetUUID(handle))
        except nvml.NVMLError as error:
            known = self._at_index.get(index)
            if known is None:
                return None  # never seen: the inventory of the daemon misses it
            return {"uuid": known, "index": index, **self._cards[known].fixed, **_fault(error)}
        self._at_index[index] = uuid
        if uuid not in self._cards:
            self._cards[uuid] = Card(self._names(handle))
        card = self._cards[uuid]
        out: dict[str, Any] = {"uuid": uuid, "index": index, **card.fixed}
        errors: dict[str, Exception] = {}
        for name, read in self._due(card, out):
            try:
                answer = {key: value for key, value in read(nvml, handle).items() if value is not None}
            except nvml.NVMLError as error:
                if error.value in (GPU_IS_LOST, RESET_REQUIRED):
                    return {"uuid": uuid, "index": index, **card.fixed, **_fault(error)}
                if error.value in (NOT_SUPPORTED, FUNCTION_NOT_FOUND):
                    card.unsupported.add(name)
                else:
                    errors[name] = error
            except (AttributeError, TypeError, ValueError) as error:  # bindings of another age
                errors[name] = error
            else:
                out.update(answer)
                if name in card.slow:
                    card.slow[name] = answer
        self._count_links(card, out)
        out["unsupported"] = sorted(card.unsupported | card.values.unsupported())
        if errors:
            name, first = next(iter(errors.items()))
            out["error"] = f"{name}: {first}"[:200]
            if "power_watts" in errors and "utilization_ratio" in errors:
                out["state"] = "unreadable"
        return out

    def _due(self, card: Card, out: dict[str, Any]) -> list[tuple[str, Any]]:
        """What to ask now; `out` gets what the slow ones said the last time, unless they failed then."""
        due = [(f.name, f.read) for f in FIELDS if not f.slow and f.name not in card.unsupported]
        if "field_values" not in card.unsupported:
            due.append(("field_values", card.values.read))
        if self._reads % EVERY_SLOW and card.slow:
            for answer in card.slow.values():
                out.update(answer)
            return due
        slow = [(f.name, f.read) for f in FIELDS if f.slow and f.name not in card.unsupported]
        card.slow = {name: {} for name, _ in slow}
        return due + slow

    def _count_links(self, card: Card, out: dict[str, Any]) -> None:
        active = out.pop("nvlinks_active", None)
        if active is not None:
            card.links.update(active)
            out["nvlink_down_count"] = len(card.links - set(active))

    def _names(self, handle: Handle) -> dict[str, Any]:
        """Name, serial number and PCI address, asked once."""
        nvml, fixed = self._nvml, {}
        for key, call in (
            ("name", nvml.nvmlDeviceGetName),
            ("serial", nvml.nvmlDeviceGetSerial),
            ("pci_bus_id", lambda h: nvml.nvmlDeviceGetPciInfo(h).busId),
        ):
            try:
                fixed[key] = _text(call(handle))
            except nvml.NVMLError:
                continue
        return fixed


def _fault(error: Any) -> dict[str, Any]:
    lost = error.value in (GPU_IS_LOST, RESET_REQUIRED)
    return {"state": "lost" if lost else "unreadable", "error": str(error)[:200]}


def _text(value: Any) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return text[:200]
