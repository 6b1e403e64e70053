"""One GPU runs at a lower clock than all its peers: the whole run waits for it at every step."""

from __future__ import annotations

from dataclasses import dataclass

from detectors._odd_gpu import OddGpu, slow_gpus
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.verdict import CLEAR, Finding, Severity, Subject, Unknown, Verdict, firing

HINT = "nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE on the node: power brake, heat or a clock that was set. Swap it."


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowGpuConfig:
    """Judged while the run trains; it has to stand out alone in 80 % of the readings of the window."""

    window_seconds: float = 600.0
    below_ratio: float = 0.05
    sigmas: float = 6.0


@dataclass(frozen=True, slots=True)
class SlowGpu:
    config: SlowGpuConfig

    def check(self, frame: Frame) -> Verdict:
        if frame.phase.name != "training" or frame.progress.first_step_at is None:
            return Unknown("judged only while the run trains")
        config = self.config
        odd = slow_gpus(frame, config.window_seconds, config.below_ratio, config.sigmas)
        if odd is None:
            return Unknown("clocks of the GPUs at work are not known for long enough")
        return firing([self._finding(frame, one) for one in odd]) if odd else CLEAR

    def _finding(self, frame: Frame, one: OddGpu) -> Finding:
        share = 1 - one.clock_mhz / one.peers_mhz
        return Finding(
            signature="slow_gpu",
            subject=Subject(run=frame.run, node=one.ref.node, gpu=one.ref.uuid, gpu_index=one.ref.index),
            severity=Severity.WARNING,
            summary=f"{one.ref} runs at {one.clock_mhz:.0f} MHz, {share:.0%} below its peers' {one.peers_mhz:.0f} MHz",
            evidence={
                "node": one.ref.node,
                "gpu_index": one.ref.index,
                "gpu_uuid": one.ref.uuid,
                "sm_clock_mhz": one.clock_mhz,
                "peers_sm_clock_mhz": one.peers_mhz,
                "power_watts": one.watts,
                "temperature_celsius": one.celsius,
            },
            hint=HINT,
        )


PLUGIN = Plugin("slow_gpu", SlowGpuConfig, SlowGpu)
