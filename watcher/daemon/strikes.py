"""What befalls the hardware of a run's nodes, as strikes in the ledger. Pure. `attempt`: in which, where it is sure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from detectors.frame import RunError, Strike
from detectors.telemetry import GpuReading
from watcher.daemon.ledger import Ledger
from watcher.daemon.nodes import NodeFold
from watcher.snapshot import XidLine

XIDS = {48: True, 64: True, 95: True, 63: False, 92: False}  # code -> does it count, or stand there only
CONTAINED = 94  # counts only where it ended the run
BEFORE_SECONDS, AFTER_SECONDS = 600.0, 300.0  # of the cause of an end: what lies in between belongs to it


class Strikes:
    """Of one run; the ledger is that of all runs, and takes reports of one event together."""

    def __init__(self, run: str, ledger: Ledger) -> None:
        self._run, self._ledger = run, ledger

    def of_gpu(self, at: float, node: str, kind: str, gpu: GpuReading, attempt: int | None = None) -> None:
        self._ledger.add(
            Strike(
                at=at,
                node=node,
                kind=kind,
                gpu_uuid=gpu.uuid,
                gpu_index=gpu.index,
                serial=gpu.serial,
                pci_bus_id=gpu.pci_bus_id,
                run=self._run,
                attempt=attempt,
            )
        )

    def of_xid(
        self, now: float, node: str, event: XidLine, gpus: Sequence[GpuReading], attempt: int | None = None
    ) -> None:
        if event.code not in XIDS:
            return
        pci = event.pci_bus_id
        gpu = next((g for g in gpus if g.uuid == event.gpu_uuid or (pci is not None and g.pci_bus_id == pci)), None)
        self._ledger.add(
            Strike(
                at=now - event.age_seconds,
                node=node,
                kind=f"xid_{event.code}",
                gpu_uuid=gpu.uuid if gpu is not None else event.gpu_uuid,
                gpu_index=gpu.index if gpu is not None else None,
                serial=gpu.serial if gpu is not None else None,
                pci_bus_id=event.pci_bus_id,
                run=self._run,
                detail=event.message[:200],
                counted=XIDS[event.code],
                attempt=attempt,
            )
        )

    def of_text(self, error: RunError, attempt: int | None = None) -> None:
        """An error line that is tied to a node."""
        if error.kind == "ecc" and error.node is not None:
            detail = error.message[:200]
            self._ledger.add(
                Strike(at=error.at, node=error.node, kind="ecc_text", run=self._run, detail=detail, attempt=attempt)
            )

    def of_end(self, cause: RunError | None, nodes: Iterable[NodeFold], attempt: int | None = None) -> None:
        """An attempt has ended by `cause`: contained errors that did it, and the node on which it began."""
        if cause is None:
            return
        for node in nodes:
            for event in node.xids:
                if event.code == CONTAINED and -BEFORE_SECONDS <= event.at - cause.at <= AFTER_SECONDS:
                    self._ledger.add(
                        Strike(
                            at=event.at,
                            node=node.name,
                            kind=f"xid_{CONTAINED}",
                            gpu_uuid=event.gpu_uuid,
                            gpu_index=node.inventory.get(event.gpu_uuid or ""),
                            pci_bus_id=event.pci_bus_id,
                            run=self._run,
                            detail=event.message[:200],
                            attempt=attempt,
                        )
                    )
        if cause.node is not None and cause.kind != "ecc":
            self._ledger.add(
                Strike(
                    at=cause.at,
                    node=cause.node,
                    kind="crash_start",
                    run=self._run,
                    detail=f"{cause.kind}: {cause.message[:160]}",
                    attempt=attempt,
                )
            )
