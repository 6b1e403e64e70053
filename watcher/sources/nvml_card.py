"""One GPU through pynvml: one broken field loses itself; what is not supported is remembered and seldom asked again."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from watcher.sources.nvml_fields import EVERY_SLOW, FIELDS, Handle, Nvml, Unsupported, text
from watcher.sources.nvml_values import FieldValues

INVALID_ARGUMENT, NOT_SUPPORTED, FUNCTION_NOT_FOUND, VERSION_MISMATCH = 2, 3, 13, 25
NEVER_HERE = (NOT_SUPPORTED, FUNCTION_NOT_FOUND, VERSION_MISMATCH)
GPU_IS_LOST, RESET_REQUIRED = 15, 16
ANEW = 360  # readings after which the unsupported is asked again: MIG was switched, a driver was exchanged


class Card:
    """What is remembered of one GPU between two readings. `asking`: the field that is being read."""

    def __init__(self, nvml: Nvml, handle: Handle, uuid: str) -> None:
        self._nvml, self.uuid = nvml, uuid
        self.fixed: dict[str, Any] = {}
        names: dict[str, Callable[[], Any]] = {
            "name": lambda: nvml.nvmlDeviceGetName(handle),
            "serial": lambda: nvml.nvmlDeviceGetSerial(handle),
            "pci_bus_id": lambda: nvml.nvmlDeviceGetPciInfo(handle).busId,
        }
        for key, call in names.items():
            try:
                self.fixed[key] = text(call())
            except (nvml.NVMLError, AttributeError, ValueError):  # ValueError: bytes that are no text
                continue
        self.asking = ""
        self._reads = 0
        self._answered: set[str] = set()
        self._unsupported: set[str] = set()
        self._values = FieldValues()
        self._slow: dict[str, dict[str, Any]] = {}  # field name -> what it said last
        self._links: set[int] = set()  # NVLinks that have been active

    def read(self, handle: Handle, index: int, given_up: Callable[[], bool]) -> dict[str, Any]:
        """The GPU object for our parent. Raises nothing; stops early where it is given up."""
        nvml = self._nvml
        out: dict[str, Any] = {"uuid": self.uuid, "index": index, **self.fixed}
        errors: dict[str, str] = {}
        for name, read in self._due(out):
            if given_up():
                break
            self.asking = name
            try:
                answer = {key: value for key, value in read(nvml, handle).items() if value is not None}
            except nvml.NVMLError as error:
                if error.value in (GPU_IS_LOST, RESET_REQUIRED):
                    return {"uuid": self.uuid, "index": index, **self.fixed, **fault(error)}
                if error.value in NEVER_HERE or (error.value == INVALID_ARGUMENT and name not in self._answered):
                    self._unsupported.add(name)
                else:
                    errors[name] = str(error)
            except (AttributeError, TypeError, Unsupported):  # bindings of another age
                self._unsupported.add(name)
            except (ValueError, ctypes.ArgumentError) as error:
                errors[name] = str(error)
            else:
                self._answered.add(name)
                out.update(answer)
                if name in self._slow:
                    self._slow[name] = answer
        self._reads += 1
        self._count_links(out)
        out["unsupported"] = sorted(self._unsupported | self._values.unsupported())
        if errors:
            name, first = next(iter(errors.items()))
            out["error"] = f"{name}: {first}"[:200]
            if "power_watts" in errors and "utilization_ratio" in errors:
                out["state"] = "unreadable"
        return out

    def _due(self, out: dict[str, Any]) -> list[tuple[str, Any]]:
        """What to ask now; `out` gets what the slow ones said the last time, unless they failed then."""
        if self._reads % ANEW == 0:
            self._unsupported.clear()
            self._values = FieldValues()
        due = [(f.name, f.read) for f in FIELDS if not f.slow and f.name not in self._unsupported]
        if "field_values" not in self._unsupported:
            due.append(("field_values", self._values.read))
        if self._reads % EVERY_SLOW and self._slow:
            for answer in self._slow.values():
                out.update(answer)
            return due
        slow = [(f.name, f.read) for f in FIELDS if f.slow and f.name not in self._unsupported]
        self._slow = {name: {} for name, _ in slow}
        return due + slow

    def _count_links(self, out: dict[str, Any]) -> None:
        active = out.pop("nvlinks_active", None)
        if active is not None:
            self._links.update(active)
            out["nvlink_down_count"] = len(self._links - set(active))


def fault(error: Any) -> dict[str, Any]:
    lost = error.value in (GPU_IS_LOST, RESET_REQUIRED)
    return {"state": "lost" if lost else "unreadable", "error": str(error)[:200]}
