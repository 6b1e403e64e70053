"""Scrapes of a simulated fleet as blocks of a Prometheus: hours of history without waiting for them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.utils import floatToGoString

from tests.support.real_server import tool

Target = tuple[str, str, CollectorRegistry]  # job, instance, what it exports


class Scrapes:
    """What a Prometheus would have kept, with the job and instance that it puts on."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def take(self, targets: Iterable[Target], at: float) -> None:
        """One scrape of each target at `at`, unix seconds."""
        for job, instance, registry in targets:
            own = {"job": job, "instance": instance}
            self._line("up", own, 1.0, at)
            for family in registry.collect():
                for sample in family.samples:
                    self._line(sample.name, {**sample.labels, **own}, sample.value, at)

    def _line(self, name: str, labels: dict[str, str], value: float, at: float) -> None:
        pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        self._lines.append(f"{name}{{{pairs}}} {floatToGoString(value)} {at:.3f}")

    def write(self, folder: Path) -> Path:
        """The data folder of a Prometheus that scraped all this."""
        file, data = folder / "scrapes.om", folder / "data"
        file.write_text("\n".join([*self._lines, "# EOF", ""]))
        command = [tool("promtool", "prometheus"), "tsdb", "create-blocks-from", "openmetrics", str(file), str(data)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return data


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
