"""A GPU is gone: NVML says so, or it was there and is missing from fresh readings."""

from __future__ import annotations

from dataclasses import dataclass

from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.telemetry import GpuReading, NodeView
from detectors.verdict import Finding, Severity, Subject, Verdict, firing

HINT = "Look for XID 79 in the kernel log of the node; only a reset or reboot may bring the GPU back. Drain the node."
FALLEN_XIDS = frozenset({79})


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLostConfig:
    """`attribution_seconds`: an XID 79 younger than this belongs to the loss."""

    attribution_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class GpuLost:
    config: GpuLostConfig

    def check(self, frame: Frame) -> Verdict:
        findings: list[Finding] = []
        blind = []
        for node in frame.nodes:
            if not node.gpus_fresh:
                blind.append(node.name)
                findings += self._fallen(frame, node)
                continue
            findings += [self._lost(frame, node, gpu) for gpu in node.gpus if gpu.state == "lost"]
            lost = {gpu.uuid for gpu in node.gpus}
            if not node.gpus:
                findings += self._fallen(frame, node)
                continue  # the driver answers nothing at all: monitoring_blind, never "GPU dead"
            findings += [self._missing(frame, node, uuid) for uuid in node.missing_uuids if uuid not in lost]
            findings += self._fewer(frame, node)
        return firing(findings, blind)

    def _lost(self, frame: Frame, node: NodeView, gpu: GpuReading) -> Finding:
        text = f"GPU {gpu.index} of {node.name} is lost ({gpu.error or 'GPU is lost'}), {gpu.uuid}"
        return self._finding(frame, node, gpu.uuid, gpu.index, text, gpu)

    def _missing(self, frame: Frame, node: NodeView, uuid: str) -> Finding:
        index = node.inventory.get(uuid)
        present = f"{len(node.gpus)} of {len(node.inventory)} GPUs answer"
        return self._finding(frame, node, uuid, index, f"GPU {index} of {node.name} is missing ({present}), {uuid}")

    def _fallen(self, frame: Frame, node: NodeView) -> list[Finding]:
        """Without readings the kernel log alone says so."""
        recent = [x for x in node.xids if frame.now - x.at <= self.config.attribution_seconds and x.code in FALLEN_XIDS]
        uuids = dict.fromkeys(x.gpu_uuid for x in recent)
        return [
            self._finding(
                frame, node, uuid, node.inventory.get(uuid or ""), f"A GPU of {node.name} is lost, {uuid or '?'}"
            )
            for uuid in uuids
        ]

    def _fewer(self, frame: Frame, node: NodeView) -> list[Finding]:
        """Fewer than the config expects, and the inventory never saw the others."""
        known = len(node.inventory)
        if node.expected_gpus is None or node.expected_gpus <= max(known, len(node.gpus)):
            return []
        text = f"{node.name} has {len(node.gpus)} GPUs, {node.expected_gpus} are expected"
        return [self._finding(frame, node, None, None, text)]

    def _finding(
        self,
        frame: Frame,
        node: NodeView,
        uuid: str | None,
        index: int | None,
        text: str,
        gpu: GpuReading | None = None,
    ) -> Finding:
        recent = [x for x in node.xids if frame.now - x.at <= self.config.attribution_seconds and x.code in FALLEN_XIDS]
        fallen = [x for x in recent if x.gpu_uuid in (uuid, None)]
        return Finding(
            signature="gpu_lost",
            subject=Subject(run=frame.run, node=node.name, gpu=uuid, gpu_index=index),
            severity=Severity.CRITICAL,
            summary=text + (" (XID 79: fallen off the bus)" if fallen else ""),
            evidence={
                "node": node.name,
                "gpu_index": index,
                "gpu_uuid": uuid,
                "serial": gpu.serial if gpu is not None else None,
                "pci_bus_id": gpu.pci_bus_id if gpu is not None else None,
                "gpus_present": sum(g.state != "lost" for g in node.gpus),
                "gpus_expected": node.expected_gpus,
            },
            hint=HINT,
        )


PLUGIN = Plugin("gpu_lost", GpuLostConfig, GpuLost)
