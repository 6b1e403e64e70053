"""A GPU has no spare rows left for a faulty one: its memory can no longer be repaired, the card has to go."""

from __future__ import annotations

from dataclasses import dataclass

from detectors._remap import remap_evidence
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.telemetry import GpuReading, NodeView
from detectors.verdict import Finding, Severity, Subject, Verdict, firing

HINT = "Take the node out at once and return the card; the serial is in the evidence. A reset does not help."


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRemapFailedConfig:
    """Nothing to set: the card says so itself."""


@dataclass(frozen=True, slots=True)
class RowRemapFailed:
    config: RowRemapFailedConfig

    def check(self, frame: Frame) -> Verdict:
        blind = [node.name for node in frame.nodes if not node.gpus_fresh]
        return firing(
            [_finding(frame, node, gpu) for node in frame.nodes for gpu in node.gpus if gpu.remap_failed], blind
        )


def _finding(frame: Frame, node: NodeView, gpu: GpuReading) -> Finding:
    return Finding(
        signature="row_remap_failed",
        subject=Subject(run=frame.run, node=node.name, gpu=gpu.uuid, gpu_index=gpu.index),
        severity=Severity.CRITICAL,
        summary=f"Row remapping failed on {node.name} gpu {gpu.index}: its memory cannot be repaired, {gpu.uuid}",
        evidence=remap_evidence(node, gpu),
        hint=HINT,
    )


PLUGIN = Plugin("row_remap_failed", RowRemapFailedConfig, RowRemapFailed)
