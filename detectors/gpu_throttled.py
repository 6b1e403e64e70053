"""A GPU is slowed by heat or by the hardware's power brake for a good part of the time. The power cap is normal."""

from __future__ import annotations

from dataclasses import dataclass

from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.telemetry import GpuReading, NodeView
from detectors.verdict import Finding, Severity, Subject, Verdict, firing

HINT = "nvidia-smi -q -d PERFORMANCE,TEMPERATURE -i INDEX: fans, air flow, a power supply, a neighbour that heats."
REASONS = ("hw_slowdown", "hw_thermal", "hw_power_brake", "sw_thermal")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuThrottledConfig:
    """Share of the last five to ten minutes, for the worst of the reasons that are looked at."""

    time_ratio: float = 0.2


@dataclass(frozen=True, slots=True)
class GpuThrottled:
    config: GpuThrottledConfig

    def check(self, frame: Frame) -> Verdict:
        blind = [n.name for n in frame.nodes if not n.gpus_fresh or all(g.throttle_ratios is None for g in n.gpus)]
        findings = (f for n in frame.nodes for g in n.gpus if (f := self._judge(frame, n, g)) is not None)
        return firing(findings, blind)

    def _judge(self, frame: Frame, node: NodeView, gpu: GpuReading) -> Finding | None:
        ratios = node.throttled.get(gpu.uuid, {})
        worst = max(REASONS, key=lambda reason: ratios.get(reason, 0.0))
        share = ratios.get(worst, 0.0)
        if share < self.config.time_ratio:
            return None
        return Finding(
            signature="gpu_throttled",
            subject=Subject(run=frame.run, node=node.name, gpu=gpu.uuid, gpu_index=gpu.index),
            severity=Severity.WARNING,
            summary=f"{node.name} gpu {gpu.index} was throttled by {worst} {share:.0%} of the last minutes",
            evidence={
                "node": node.name,
                "gpu_index": gpu.index,
                "gpu_uuid": gpu.uuid,
                "reason": worst,
                "time_ratio": round(share, 3),
                "temperature_celsius": gpu.temperature_celsius,
                "sm_clock_mhz": gpu.sm_clock_mhz,
            },
            hint=HINT,
        )


PLUGIN = Plugin("gpu_throttled", GpuThrottledConfig, GpuThrottled)
