"""All GPUs of a node through pynvml, once. Runs in the child: a call may hang, crash or lie.

One broken field loses itself, one broken GPU loses itself, and one that does not answer costs the others nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from typing import Any

from watcher.sources.nvml_card import Card, fault
from watcher.sources.nvml_events import XidEvents
from watcher.sources.nvml_field import Handle, Nvml, text
from watcher.sources.nvml_turns import Turns

MAX_GPUS = 64
GPU_SECONDS = 2.0  # for the whole reading of one GPU, twice that at most
NO_PERMISSION, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, MISMATCH, UNKNOWN = 4, 9, 12, 18, 999
KINDS = {
    NO_PERMISSION: "no_permission",
    DRIVER_NOT_LOADED: "no_driver",
    LIBRARY_NOT_FOUND: "no_library",
    MISMATCH: "driver_mismatch",
    UNKNOWN: "unknown",
}
ADVICE = {
    "no_permission": "NVML refuses this user: the agent needs access to /dev/nvidiactl and /dev/nvidia*",
    "no_driver": "the NVIDIA driver is not loaded: nvidia-smi says the same",
    "no_library": "libnvidia-ml.so.1 is not here: no NVIDIA driver, or a container without the NVIDIA runtime",
    "driver_mismatch": "driver and library differ in version after an update: jobs go on, readings need a reboot",
    "unknown": "NVML: Unknown Error. In a container: it has lost its devices (systemd daemon-reload); start it anew. "
    "On a host: dmesg -T | grep -iE 'nvrm|xid'",
    "no_devices": "NVML finds no GPU on this node",
}


class NvmlReader:
    """`read()` answers `{"gpus": [...], "xids": [...], "devices": N}` or `{"error": text, "kind": kind}`.

    `devices`: GPUs that answer or are known not to. `on_gpu` hears of each GPU before it is read.
    """

    def __init__(self, nvml: Nvml, gpu_seconds: float = GPU_SECONDS) -> None:
        self._nvml = nvml
        self._events = XidEvents(nvml)
        self._turns = Turns(self._gpu, gpu_seconds)
        self._ready = False
        self._count = -1
        self._cards: dict[str, Card] = {}
        self._at_index: dict[int, Card] = {}  # whom an index meant while the GPU could still tell
        self._on_gpu: Callable[[int], None] | None = None
        self.driver_version: str | None = None

    def read(self, skip: Collection[int] = (), on_gpu: Callable[[int], None] | None = None) -> dict[str, Any]:
        """`skip`: indices that are left out. Never raises."""
        self._on_gpu = on_gpu
        try:
            count = self._enumerate()
        except self._nvml.NVMLError as error:
            self._close()
            kind = KINDS.get(error.value)
            return {"error": ADVICE[kind] if kind else f"NVML: {error}", "kind": kind or "unknown"}
        if count == 0:
            return {"error": ADVICE["no_devices"], "kind": "no_devices"}
        indices = [index for index in range(min(count, MAX_GPUS)) if index not in skip]
        readings = self._turns.take(indices)
        for index in self._turns.held:
            readings[index] = self._silent(index)
        gpus = {gpu.get("uuid", index): gpu for index, gpu in sorted(readings.items())}  # two of one name are one
        named = sum("uuid" in gpu for gpu in gpus.values())
        if gpus and not named and not self._turns.held:
            return {"error": f"no GPU can be read: {next(iter(gpus.values()))['error']}", "kind": "unknown"}
        devices = named + sum(gpu.get("stuck") is None for gpu in gpus.values() if "uuid" not in gpu)
        xids = self._events.take()
        return {"gpus": [*gpus.values()], "xids": xids, "devices": devices, "driver_version": self.driver_version}

    def _enumerate(self) -> int:
        """The number of devices; after a change of it NVML is started anew, for its indices have moved."""
        if self._ready:
            count = int(self._nvml.nvmlDeviceGetCount())
            if count == self._count:
                return count
            if self._turns.held:  # a session with an open call cannot be ended: our parent starts another
                raise self._nvml.NVMLError(self._nvml.NVML_ERROR_UNKNOWN)
            self._close()
        self._nvml.nvmlInit()
        self._ready = True
        self._at_index.clear()
        self.driver_version = None
        with contextlib.suppress(self._nvml.NVMLError, ValueError):
            self.driver_version = text(self._nvml.nvmlSystemGetDriverVersion())
        self._count = int(self._nvml.nvmlDeviceGetCount())
        self._events.open()
        return self._count

    def _close(self) -> None:
        if self._ready:
            self._events.close()
            with contextlib.suppress(self._nvml.NVMLError):  # it is gone either way
                self._nvml.nvmlShutdown()
        self._ready, self._count = False, -1

    def _gpu(self, index: int, given_up: Callable[[], bool]) -> dict[str, Any] | None:
        """One without a name is one that could never tell it."""
        if self._on_gpu is not None:
            self._on_gpu(index)
        nvml, known = self._nvml, self._at_index.get(index)
        if known is not None:
            known.asking = "handle"
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = self._name(handle)
        except nvml.NVMLError as error:
            if known is None:
                return {"index": index, **fault(error)}
            return {"uuid": known.uuid, "index": index, **known.fixed, **fault(error)}
        if given_up():
            return None
        card = self._cards.get(uuid)
        if card is None:
            card = self._cards[uuid] = Card(nvml, handle, uuid, self.driver_version)
        self._at_index[index] = card
        reading = card.read(handle, index, given_up)
        if not given_up():
            self._events.watch(uuid, handle)
        return reading

    def _name(self, handle: Handle) -> str:
        """The UUID, or the PCI address of a card that gives none. Raises NVMLError where neither can be had."""
        nvml = self._nvml
        try:
            return text(nvml.nvmlDeviceGetUUID(handle))
        except ValueError:  # bytes that are no text
            pass
        except nvml.NVMLError as error:
            if error.value not in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND):
                raise
        try:
            return "PCI-" + text(nvml.nvmlDeviceGetPciInfo(handle).busId)
        except ValueError:
            raise nvml.NVMLError(nvml.NVML_ERROR_UNKNOWN) from None

    def _silent(self, index: int) -> dict[str, Any]:
        card = self._at_index.get(index)
        place = {} if card is None else {"uuid": card.uuid, **card.fixed}
        error = f"{'handle' if card is None else card.asking}: NVML does not answer"
        return {**place, "index": index, "state": "unreadable", "stuck": True, "error": error}
