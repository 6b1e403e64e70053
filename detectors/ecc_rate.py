"""Correctable ECC errors come far faster than they used to: a card that grows weak. Never pages alone."""

from __future__ import annotations

from dataclasses import dataclass

from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.telemetry import NodeView
from detectors.verdict import Finding, Severity, Subject, Verdict, firing

HINT = "Watch it; reset the GPU before its next run. With uncorrectable errors or failed remaps beside it: exchange it."


@dataclass(frozen=True, slots=True, kw_only=True)
class EccRateConfig:
    """Above `times` its own usual rate and above `floor_per_second`."""

    times: float = 100.0
    floor_per_second: float = 10.0


@dataclass(frozen=True, slots=True)
class EccRate:
    config: EccRateConfig

    def check(self, frame: Frame) -> Verdict:
        blind = [node.name for node in frame.nodes if not node.gpus_fresh]
        config = self.config
        return firing(
            (
                self._finding(frame, node, uuid, rate, usual)
                for node in frame.nodes
                for uuid, (rate, usual) in node.corrected_rates.items()
                if rate >= config.floor_per_second and rate >= config.times * usual
            ),
            blind,
        )

    def _finding(self, frame: Frame, node: NodeView, uuid: str, rate: float, usual: float) -> Finding:
        index = node.inventory.get(uuid)
        return Finding(
            signature="ecc_rate",
            subject=Subject(run=frame.run, node=node.name, gpu=uuid, gpu_index=index),
            severity=Severity.WARNING,
            summary=f"{node.name} gpu {index} corrects {rate:.0f} ECC errors a second, usual are {usual:.2g}, {uuid}",
            evidence={
                "node": node.name,
                "gpu_index": index,
                "gpu_uuid": uuid,
                "errors_per_second": round(rate, 2),
                "usual_errors_per_second": round(usual, 4),
            },
            hint=HINT,
        )


PLUGIN = Plugin("ecc_rate", EccRateConfig, EccRate)
