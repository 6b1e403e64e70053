"""`nvidia-smi` output as people paste it: the table, the `--query-gpu` CSV, or `-q -x`. Found by what it is."""

from __future__ import annotations

import csv
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from typing import Any

from detectors.telemetry import GpuReading
from watcher.replay.nvidia_smi import COLUMNS, MIB, NUMBER, TEXT, gpu_of

MAX_CHARACTERS = 8 << 20
MAX_LINE = 64 << 10
NAME = re.compile(r"[a-z][a-z0-9_.]*")
NUMBERED = {"index", "uuid", "gpu_uuid"}
NAMES = {*COLUMNS, *TEXT, *NUMBERED, "timestamp"}
FIRST = re.compile(
    r"^\|\s+(\d+)\s+(\S.*?)\s{2,}(?:On|Off|N/A|ERR!)?\s*\|\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+)?.*\|\s*(\S+)\s*\|"
)
SECOND = re.compile(r"^\|\s*(\S+)\s+(\d+C|N/A|ERR!)\s+(\S+)\s+(\S+?)\s*/\s*(\S+)\s*\|\s*(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)")


PASTED = re.compile(
    r"^(?:[ \t]*>)*[ \t]+(?=[|+]|<|\d)|^(?:[ \t]*>)+[ \t]*", re.MULTILINE
)  # indented or quoted in a chat
XML_START = re.compile(r"<\?xml|<nvidia_smi_log")
NO_HANDLE = re.compile(r"Unable to determine the device handle for GPU\s*(?:(\d+): )?([0-9A-Fa-f:.]*[0-9A-Fa-f]): (.+)")
# what nvidia-smi says instead of an answer -> what it means
FAILED = {
    "couldn't communicate with the NVIDIA driver": "the driver is not loaded, or does not answer: dmesg | grep NVRM",
    "Driver/library version mismatch": "driver and library differ in version after an update: reboot the node",
    "No devices were found": "the driver sees no GPU: lspci | grep -i nvidia, dmesg | grep NVRM",
    "Failed to initialize NVML": "the driver's library does not start: start a container anew, else dmesg | grep NVRM",
}


class TriageError(Exception):
    """The text is no output of nvidia-smi."""


def read_snapshot(text: str) -> list[GpuReading]:
    """The GPUs in it. Raises TriageError."""
    text = PASTED.sub("", text[:MAX_CHARACTERS])
    if start := XML_START.search(text):
        gpus = _xml(text[start.start() :])
    elif re.search(r"^\|\s+\d+\s+\S", text, re.MULTILINE):
        gpus = _table(text)
    else:
        gpus = _csv(text.lstrip("\ufeff"))
    gpus += _without_handle(text, len(gpus))
    if not gpus:
        raise TriageError(_why_nothing(text))
    return gpus


def _why_nothing(text: str) -> str:
    for said, meaning in FAILED.items():
        if said in text:
            return f"nvidia-smi itself failed ({said}): {meaning}"
    return (
        "no GPU in it: give the output of nvidia-smi, its --query-gpu CSV with the line of the column names, or "
        "nvidia-smi -q -x"
    )


def _without_handle(text: str, index: int) -> list[GpuReading]:
    """GPUs of which nvidia-smi says only that it cannot reach them; `index`: of the first that has no number."""
    found = {match[2]: (match[1], match[3].strip()) for match in NO_HANDLE.finditer(text)}
    return [
        GpuReading(
            uuid=place,
            index=int(number[:4]) if number else index + offset,
            state="lost" if "lost" in error.lower() else "unreadable",
            error=error[:80],
            pci_bus_id=place,
        )
        for offset, (place, (number, error)) in enumerate(found.items())
    ]


def _csv(text: str) -> list[GpuReading]:
    """The last look of each GPU, where the file has several. Without a column that numbers them the rows do."""
    names: list[str] = []
    found: dict[str | int, GpuReading] = {}
    for line in text.splitlines():
        row = next(csv.reader([line[:MAX_LINE]], skipinitialspace=True), [])
        cells = [cell.split(" [")[0].strip().lower() for cell in row]
        if not names and all(map(NAME.fullmatch, cells)) and not NAMES.isdisjoint(cells):
            names = cells
        elif names and len(row) >= min(2, len(names)) and cells[0] != names[0]:
            cells_of = dict(zip(names, row, strict=False))
            if NUMBERED.isdisjoint(names):
                cells_of["index"] = str(len(found))
            gpu = gpu_of(cells_of)
            if gpu is not None:
                found[gpu.uuid if "timestamp" in names or "uuid" in names else len(found)] = gpu
    return list(found.values())


def _table(text: str) -> list[GpuReading]:
    """Two lines a GPU: index and name, then fan, temperature, power, memory, utilization."""
    gpus, index, name = [], None, ""
    for line in text.splitlines():
        if first := FIRST.match(line):
            index, name = int(first[1]), first[2].strip()
            continue
        second = SECOND.match(line)
        if second is None or index is None:
            continue
        gpus.append(_reading(index, name, second[4], second[5], second[8], second[6], second[7], second[2]))
        index = None
    return gpus


def _xml(text: str) -> list[GpuReading]:
    if "<!ENTITY" in text:
        raise TriageError("XML with entities is not read")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise TriageError(f"not whole XML: {error}") from None
    gpus = []
    for number, gpu in enumerate(root.iter("gpu")):
        power = gpu.find("gpu_power_readings")
        power = power if power is not None else gpu.find("power_readings")

        def said(path: str, node: Any = gpu) -> str:
            return (node.findtext(path) or "N/A").strip() if node is not None else "N/A"

        draw = _first(said(name, power) for name in ("average_power_draw", "power_draw", "instant_power_draw"))
        limit = _first(said(name, power) for name in ("current_power_limit", "enforced_power_limit", "power_limit"))
        gpus.append(
            _reading(
                number, said("product_name"), draw, limit, said("utilization/gpu_util"), said("fb_memory_usage/used"),
                said("fb_memory_usage/total"), said("temperature/gpu_temp"), said("utilization/memory_util"),
                said("uuid"),
            )
        )  # fmt: skip
    return gpus


def _reading(
    index: int, name: str, power: str, limit: str, busy: str, used: str, total: str, heat: str, memory: str = "N/A",
    uuid: str = "",
) -> GpuReading:  # fmt: skip
    cells = {"power": power, "busy": busy, "heat": heat}
    broken = [text for text in cells.values() if re.search(r"err|unknown|lost", text, re.IGNORECASE)]
    lost = any("lost" in text.lower() for text in broken)
    ratio = _number(busy)
    memory_ratio = _number(memory)
    return GpuReading(
        uuid=uuid or f"index-{index}",
        index=index,
        name=name,
        state="lost" if lost else "unreadable" if len(broken) >= 2 or "ERR!" in broken else "ok",
        error=broken[0] if broken else None,
        power_watts=_number(power),
        power_limit_watts=_number(limit),
        utilization_ratio=None if ratio is None else ratio / 100,
        memory_utilization_ratio=None if memory_ratio is None else memory_ratio / 100,
        memory_used_bytes=_bytes(used),
        memory_total_bytes=_bytes(total),
        temperature_celsius=_number(heat),
    )


def _first(texts: Iterable[str]) -> str:
    return next((text for text in texts if text != "N/A"), "N/A")


def _number(text: str) -> float | None:
    found = NUMBER.match(text.strip())
    value = float(found[0]) if found else None
    return value if value is not None and math.isfinite(value) else None


def _bytes(text: str) -> int | None:
    value = _number(text)
    return None if value is None else int(value * MIB)
