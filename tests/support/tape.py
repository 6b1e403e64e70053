"""The history of a fleet as dcgm-exporter and a training job would have left it, put into a real Prometheus."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.real_server import tool
from tests.support.runs import Level

Gpus = Callable[[str, int, float], Level | None]  # node, index, second -> what it shows; None: not scraped
GAUGES = ("POWER_USAGE", "GPU_UTIL", "MEM_COPY_UTIL", "FB_USED", "FB_FREE", "GPU_TEMP", "SM_CLOCK", "XID_ERRORS")


@dataclass
class Tape:
    """Series by metric: labels -> [(unix seconds, value)]."""

    series: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)

    def add(self, metric: str, labels: Mapping[str, str], at: float, value: float) -> None:
        text = ",".join(f'{name}="{value}"' for name, value in labels.items())
        self.series.setdefault(metric, {}).setdefault(text, []).append((at, value))

    def fleet(
        self, start: float, seconds: float, nodes: Sequence[str], gpus: int, level: Gpus, scrape: float = 15.0
    ) -> None:
        """`level` is asked for each scrape; its wobble is even and repeatable."""
        for tick in range(int(seconds / scrape) + 1):
            t = tick * scrape
            for node in nodes:
                for index in range(gpus):
                    shown = level(node, index, t)
                    if shown is not None:
                        self._gpu(start + t, node, index, shown, tick)

    def _gpu(self, at: float, node: str, index: int, shown: Level, tick: int) -> None:
        labels = {
            "gpu": str(index), "UUID": f"GPU-{node}-{index:04d}", "Hostname": node, "instance": f"{node}:9400",
            "modelName": "NVIDIA H100 80GB HBM3",
        }  # fmt: skip
        swing = ((tick * 7 + index * 3) % 11 - 5) / 5
        power = (shown.power_watts or 0.0) + swing * shown.wobble_watts
        busy, used = (shown.utilization_ratio or 0.0) * 100, (shown.memory_gib or 0.0) * 1024
        memory = (shown.memory_utilization_ratio or 0.0) * 100
        values = (power, busy, memory, used, 81_920 - used, 60.0, 1_900.0, 0.0)
        for metric, value in zip(GAUGES, values, strict=True):
            self.add(f"DCGM_FI_DEV_{metric}", labels, at, value)

    def write(self, folder: Path) -> Path:
        """Blocks of a time series database under `folder`, for `prometheus(..., data=...)`."""
        text = folder / "history.om"
        with text.open("w") as out:
            for metric, series in self.series.items():
                out.write(f"# TYPE {metric} gauge\n")
                for labels, points in series.items():
                    out.writelines(f"{metric}{{{labels}}} {value:g} {at:.3f}\n" for at, value in points)
            out.write("# EOF\n")
        blocks = folder / "blocks"
        command = [tool("promtool", "prometheus"), "tsdb", "create-blocks-from", "openmetrics", "-q", text, blocks]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        return blocks
