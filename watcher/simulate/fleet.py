"""GPUs and log of a simulated run. Levels are published ones: A100 at work 300-390 of 400 W, hung 84-87 W at 100 %."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from detectors.telemetry import GpuReading
from watcher.simulate.script import Kind, Script, Stretch

GIB = 1 << 30
LIMIT_WATTS = 400.0
EVALUATION_SETS = 4


@dataclass(frozen=True, slots=True)
class Level:
    watts: float
    swing_watts: float
    utilization: float
    memory_utilization: float
    memory_gib: float
    celsius: float
    clock_mhz: float
    nvlink_bytes_per_second: float = 0.0


LEVELS: dict[Kind, Level] = {
    "free": Level(58, 1, 0.0, 0.0, 0.0, 31, 210),
    "startup": Level(78, 6, 0.05, 0.01, 30.0, 34, 1410),
    "train": Level(345, 28, 0.98, 0.55, 71.0, 61, 1350, 1.9e11),
    "evaluate": Level(300, 35, 0.95, 0.5, 71.0, 58, 1380, 4e10),
    "save": Level(88, 2, 1.0, 0.0, 71.0, 45, 1410),
    "spin": Level(85, 1.2, 1.0, 0.0, 71.0, 38, 1410),
    "idle": Level(70, 1, 0.0, 0.0, 71.0, 36, 1410),
}
ODD = Level(68, 0.5, 0.0, 0.0, 71.0, 33, 1410)
WELL: dict[str, Any] = {  # what a sound card says of its faults and links
    "ecc_enabled": True, "ecc_volatile_corrected_count": 0, "ecc_volatile_uncorrected_count": 0,
    "ecc_aggregate_corrected_count": 0, "ecc_aggregate_uncorrected_count": 0, "remap_pending": False,
    "remap_failed": False, "remapped_correctable_count": 0, "remapped_uncorrectable_count": 0, "pcie_width": 16,
    "pcie_width_max": 16, "pcie_generation": 4, "pcie_replay_count": 0, "nvlink_error_count": 0, "nvlink_down_count": 0,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """`nodes` x `gpus` through a script. Everything is a function of the second `t` since the start."""

    script: Script
    nodes: tuple[str, ...] = ("gpu-node-01", "gpu-node-02")
    gpus: int = 8
    seed: int = 7

    def readings(self, node: str, t: float) -> tuple[GpuReading, ...]:
        place = self.nodes.index(node)
        return tuple(self._reading(node, place, index, t) for index in range(self.gpus))

    def _reading(self, node: str, place: int, index: int, t: float) -> GpuReading:
        stretch, since = self.script.at(t)
        level = LEVELS[stretch.kind]
        if stretch.kind in ("spin", "idle") and self.script.odd == (place, index):
            level = ODD
        if stretch.kind == "save" and (place, index) == (0, 0):
            level = ODD  # the rank that writes waits for the disk
        own = 1 + 0.04 * self._noise(node, index, 0)
        watts = level.watts * own + level.swing_watts * self._noise(node, index, round(t * 10))
        cooling = 18 * math.exp(-since / 90) if stretch.kind in ("spin", "idle") else 0.0
        return GpuReading(
            uuid=f"GPU-{place:08x}-0000-4000-8000-{index:012x}",
            index=index,
            name="NVIDIA A100-SXM4-80GB",
            serial=f"16509210{place:02d}{index:02d}",
            pci_bus_id=f"00000000:{0x07 + 8 * index:02X}:00.0",
            power_watts=round(max(40.0, watts), 1),
            power_limit_watts=LIMIT_WATTS,
            utilization_ratio=level.utilization,
            memory_utilization_ratio=level.memory_utilization,
            memory_used_bytes=int(level.memory_gib * GIB),
            memory_total_bytes=80 * GIB,
            temperature_celsius=round(level.celsius + cooling + 2 * self._noise(node, index, 1)),
            sm_clock_mhz=level.clock_mhz,
            sm_clock_max_mhz=1410.0,
            process_count=1 if level.memory_gib else 0,
            throttle_ratios={"sw_power_cap": 0.0, "hw_thermal": 0.0},
            nvlink_bytes_per_second=level.nvlink_bytes_per_second,
            **WELL,
        )

    def _noise(self, node: str, index: int, moment: int) -> float:
        """Even in -1..1, the same for the same arguments."""
        digest = hashlib.blake2b(f"{self.seed}/{node}/{index}/{moment}".encode(), digest_size=4).digest()
        return int.from_bytes(digest, "big") / 2**31 - 1

    def log_lines(self, after: float, until: float) -> list[str]:
        """Lines written in (after, until], as Megatron-LM writes them."""
        return [line for at, line in self._lines(after, until) if after < at <= until]

    def _lines(self, after: float, until: float) -> Iterator[tuple[float, str]]:
        """Of the stretches that touch this time."""
        step = 0
        for start, stretch in zip(self.script.starts, self.script.stretches, strict=True):
            if start > until:
                return
            if stretch.first_step is not None:
                step = stretch.first_step
            if start + stretch.seconds >= after:
                yield from self._stretch_lines(start, stretch, step)
            if stretch.kind == "train":
                step += self._steps(stretch)

    def _steps(self, stretch: Stretch) -> int:
        return int(stretch.seconds // self.script.step_seconds)

    def _stretch_lines(self, start: float, stretch: Stretch, step: int) -> Iterator[tuple[float, str]]:
        world = len(self.nodes) * self.gpus
        end = start + stretch.seconds
        match stretch.kind:
            case "startup":
                yield (
                    start + 1,
                    f"using world size: {world}, data-parallel size: {world // 8}",
                )
                yield start + 2, "> initializing torch distributed ..."
                yield start + 20, f" loading checkpoint from /data/ckpt at iteration {step}"
                yield end - 5, "[before the start of training step]"
            case "train":
                for n in range(1, self._steps(stretch) + 1):
                    yield start + n * self.script.step_seconds, self._step_line(step + n)
            case "save":
                yield start + 1, f"saving checkpoint at iteration {step:7d} to /data/ckpt"
                yield end - 1, f"  successfully saved checkpoint at iteration {step:7d} to /data/ckpt"
            case "evaluate":
                for n in range(1, EVALUATION_SETS + 1):
                    loss = 2.2 + 0.01 * n
                    at = start + n * stretch.seconds / (EVALUATION_SETS + 1)
                    yield at, f" set-{n} loss at iteration {step} | lm loss value: {loss:.6E} | lm loss PPL: 9.1E+00 |"
            case _:
                return

    def _step_line(self, step: int) -> str:
        loss = 2.1 + 0.4 * math.exp(-step / 3000) + 0.01 * self._noise("loss", 0, step)
        milliseconds = 1000 * self.script.step_seconds * (1 + 0.005 * self._noise("pace", 0, step))
        return (
            f" iteration {step:8d}/{self.script.total_steps:8d} | consumed samples: {step * 1024:12d} | "
            f"elapsed time per iteration (ms): {milliseconds:.1f} | throughput per GPU (TFLOP/s/GPU): 148.{step % 10} "
            f"| learning rate: 1.000E-04 | global batch size: 1024 | lm loss: {loss:.6E} | grad norm: 0.21 | "
            f"number of skipped iterations: 0 | number of nan iterations: 0 |"
        )
