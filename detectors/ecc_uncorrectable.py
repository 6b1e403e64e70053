"""The volatile count of uncorrectable ECC errors went up on a GPU. Aggregate counts are history and never fire."""

from __future__ import annotations

from dataclasses import dataclass

from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.telemetry import GpuReading, NodeView
from detectors.verdict import Finding, Severity, Subject, Verdict, firing

HINT = "One contained error may pass; the GPU needs a reset before its next run. Two within a week: take the node out."


@dataclass(frozen=True, slots=True, kw_only=True)
class EccUncorrectableConfig:
    """`at_least`: new errors since the GPU was first seen or last reset."""

    at_least: int = 1


@dataclass(frozen=True, slots=True)
class EccUncorrectable:
    config: EccUncorrectableConfig

    def check(self, frame: Frame) -> Verdict:
        blind = [node.name for node in frame.nodes if not node.gpus_fresh]
        findings = [
            finding
            for node in frame.nodes
            for gpu in node.gpus
            if (finding := self._judge(frame, node, gpu)) is not None
        ]
        return firing(findings, blind)

    def _judge(self, frame: Frame, node: NodeView, gpu: GpuReading) -> Finding | None:
        count = gpu.ecc_volatile_uncorrected_count
        if count is None:
            return None
        new = count - node.ecc_baseline.get(gpu.uuid, count)
        if new < self.config.at_least:
            return None
        failed = bool(gpu.remap_failed)
        parts = {
            "SRAM": gpu.ecc_volatile_uncorrected_sram_count,
            "DRAM": gpu.ecc_volatile_uncorrected_dram_count,
        }
        detail = ", ".join(f"{name} {value}" for name, value in parts.items() if value)
        return Finding(
            signature="ecc_uncorrectable",
            subject=Subject(run=frame.run, node=node.name, gpu=gpu.uuid, gpu_index=gpu.index),
            severity=Severity.CRITICAL if failed else Severity.WARNING,
            summary=(
                f"{new} new uncorrectable ECC error{'s' if new > 1 else ''} on {node.name} gpu {gpu.index}"
                f"{f' ({detail})' if detail else ''}{', and row remapping failed' if failed else ''}, {gpu.uuid}"
            ),
            evidence={
                "node": node.name,
                "gpu_index": gpu.index,
                "gpu_uuid": gpu.uuid,
                "serial": gpu.serial,
                "pci_bus_id": gpu.pci_bus_id,
                "new_errors_count": new,
                "volatile_errors_count": count,
                "remap_pending": gpu.remap_pending,
                "remap_failed": gpu.remap_failed,
            },
            hint=HINT,
        )


PLUGIN = Plugin("ecc_uncorrectable", EccUncorrectableConfig, EccUncorrectable)
