"""A faulty row of GPU memory is set aside at the next reset: nothing to do now, something at the next restart."""

from __future__ import annotations

from dataclasses import dataclass

from detectors._remap import remap_evidence
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.telemetry import GpuReading, NodeView
from detectors.verdict import Finding, Severity, Subject, Verdict, firing

HINT = "Reset the GPU before the next launch: runwatch agent --release, nvidia-smi -r -i INDEX."


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRemapPendingConfig:
    """Nothing to set: the card says so itself."""


@dataclass(frozen=True, slots=True)
class RowRemapPending:
    config: RowRemapPendingConfig

    def check(self, frame: Frame) -> Verdict:
        blind = [node.name for node in frame.nodes if not node.gpus_fresh]
        pending = [(n, g) for n in frame.nodes for g in n.gpus if g.remap_pending and not g.remap_failed]
        return firing([_finding(frame, node, gpu) for node, gpu in pending], blind)


def _finding(frame: Frame, node: NodeView, gpu: GpuReading) -> Finding:
    return Finding(
        signature="row_remap_pending",
        subject=Subject(run=frame.run, node=node.name, gpu=gpu.uuid, gpu_index=gpu.index),
        severity=Severity.INFO,
        summary=f"{node.name} gpu {gpu.index} waits for a reset to set a faulty row aside, {gpu.uuid}",
        evidence=remap_evidence(node, gpu),
        hint=HINT,
    )


PLUGIN = Plugin("row_remap_pending", RowRemapPendingConfig, RowRemapPending)
