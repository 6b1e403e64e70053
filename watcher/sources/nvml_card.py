"""One GPU through pynvml: one broken field loses itself; what is not supported is remembered and seldom asked again."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from typing import Any

from watcher.sources.nvml_field import Handle, Nvml, Unsupported, text
from watcher.sources.nvml_fields import FIELDS
from watcher.sources.nvml_links import PCIE_MEASURED
from watcher.sources.nvml_values import FieldValues, LinkValues

INVALID_ARGUMENT, NOT_SUPPORTED, FUNCTION_NOT_FOUND, VERSION_MISMATCH = 2, 3, 13, 25
NEVER_HERE = (NOT_SUPPORTED, FUNCTION_NOT_FOUND, VERSION_MISMATCH)
GPU_IS_LOST, RESET_REQUIRED = 15, 16
OF_LINKS = ("nvlink_bytes", "nvlink_error_count")
ANEW = 360  # readings after which the unsupported is asked again: MIG was switched, a driver was exchanged


class Card:
    """What is remembered of one GPU between two readings. `asking`: the field that is being read."""

    def __init__(self, nvml: Nvml, handle: Handle, uuid: str, driver: str | None = None) -> None:
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
        with contextlib.suppress(nvml.NVMLError, AttributeError, TypeError):
            self.fixed["minor"] = int(nvml.nvmlDeviceGetMinorNumber(handle))
        self.asking = ""
        self._reads = 0
        self._answered: set[str] = set()
        self._unsupported: set[str] = set()
        self._driver = driver
        self._values, self._link_values = FieldValues(driver), LinkValues()
        self._last: dict[str, dict[str, Any]] = {}  # field name -> what it said last, of those not read each time
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
                if name in self._last:
                    self._last[name] = answer
        self._reads += 1
        self._conclude(out)
        out["unsupported"] = sorted((self._unsupported | self._values.unsupported()) - out.keys())
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
            self._values, self._link_values = FieldValues(self._driver), LinkValues()
        due: list[tuple[str, Any]] = []
        for field in FIELDS:
            if field.name in self._unsupported or (field is PCIE_MEASURED and self._values.gives("pcie_bytes")):
                continue
            if field.every > 1 and self._reads % field.every and field.name in self._last:
                out.update(self._last[field.name])
                continue
            if field.every > 1:
                self._last[field.name] = {}
            due.append((field.name, field.read))
        if "field_values" not in self._unsupported:
            due.insert(0, ("field_values", self._values.read))
            if self._links and not all(map(self._values.gives, OF_LINKS)):
                due.append(("nvlink_values", self._read_links))
        return due

    def _read_links(self, nvml: Nvml, handle: Handle) -> dict[str, Any]:
        missing = [name for name in OF_LINKS if not self._values.gives(name)]
        return self._link_values.read(nvml, handle, sorted(self._links), missing)

    def _conclude(self, out: dict[str, Any]) -> None:
        active, pending = out.pop("nvlinks_active", None), out.pop("pages_pending", None)
        if active is not None:
            self._links.update(active)
            out["nvlink_down_count"] = len(self._links - set(active))
        if pending is not None and "remap_pending" in self._unsupported:  # cards that retire pages have no rows
            out["remap_pending"] = bool(pending)


def fault(error: Any) -> dict[str, Any]:
    lost = error.value in (GPU_IS_LOST, RESET_REQUIRED)
    return {"state": "lost" if lost else "unreadable", "error": str(error)[:200]}
