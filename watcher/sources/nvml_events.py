"""XIDs as NVML's event set gives them: asked once a cycle without waiting, named by what the handles meant at start."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

from watcher.sources.nvml_field import Handle, Nvml, text

MAX_PER_READ = 100
WAIT_MILLISECONDS = 1


class XidEvents:
    """One event set for all GPUs. After a GPU is lost its handle can no longer tell the UUID, so that is kept."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._set: Any = None
        self._asked: set[str] = set()
        self._uuids: dict[int | None, str] = {}

    def open(self) -> None:
        """For a session of NVML that has begun. Raises nothing."""
        self.close()
        with contextlib.suppress(self._nvml.NVMLError, AttributeError):
            self._set = self._nvml.nvmlEventSetCreate()

    def watch(self, uuid: str, handle: Handle) -> None:
        """Once a card and session; one that gives no events is not asked again."""
        if self._set is None or uuid in self._asked:
            return
        self._asked.add(uuid)
        nvml = self._nvml
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, self._set)
            self._uuids[_address(handle)] = uuid

    def take(self) -> list[dict[str, Any]]:
        """What came since the last time: `{"code": 79, "uuid": ...}`."""
        out: list[dict[str, Any]] = []
        if not self._uuids:
            return out
        for _ in range(MAX_PER_READ):
            try:
                event = self._nvml.nvmlEventSetWait(self._set, WAIT_MILLISECONDS)
            except self._nvml.NVMLError:  # a time-out is the normal end; of no error the event may be believed
                break
            if event.eventType == self._nvml.nvmlEventTypeXidCriticalError:
                out.append({"code": int(event.eventData), "uuid": self._uuid(event.device)})
        return out

    def _uuid(self, handle: Handle) -> str | None:
        """By the handle's address; of one that was never seen, as long as it can tell."""
        known = self._uuids.get(_address(handle))
        if known is None:
            with contextlib.suppress(self._nvml.NVMLError, ValueError):
                return text(self._nvml.nvmlDeviceGetUUID(handle))
        return known

    def close(self) -> None:
        if self._set is not None:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlEventSetFree(self._set)
        self._set = None
        self._asked.clear()
        self._uuids.clear()


def _address(handle: Handle) -> int | None:
    """Handles are pointers; two of them are the same card where their addresses are the same."""
    return ctypes.cast(handle, ctypes.c_void_p).value
