"""Drives the C fake of libnvidia-ml: builds it, writes its script, gives the environment for a process to use it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")
LOST = 15
UNKNOWN = 999
NO_PERMISSION = 4
MISMATCH = 18


@cache
def build(folder: Path, with_stubs: bool = False, without: tuple[str, ...] = (), source: Path = SOURCE) -> Path:
    """The library, built into `folder`; skips the test where there is no C compiler.

    `with_stubs`: what the bindings know and the fake does not answers NOT_SUPPORTED, so that other programs load it.
    `without`: symbols that it does not have.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler (gcc) to build the fake NVML")
    library = folder / "libnvidia-ml.so.1"
    flags = ["-O2", "-shared", "-fPIC", "-Wall", "-Werror", "-Wl,-soname,libnvidia-ml.so.1"]
    sources = [str(source)]
    if with_stubs:
        sources.append(str(_stubs(folder)))
    if without:
        (folder / "symbols").write_text(f"{{ global: *; local: {' '.join(f'{name};' for name in without)} }};\n")
        flags.append(f"-Wl,--version-script={folder / 'symbols'}")
    subprocess.run([compiler, *flags, "-o", str(library), *sources], check=True)
    return library


def _stubs(folder: Path) -> Path:
    import pynvml

    known = set(re.findall(r"\b(nvml\w+)\(", SOURCE.read_text()))
    names = set(re.findall(r'_nvmlGetFunctionPointer\("(nvml\w+)"\)', Path(pynvml.__file__).read_text())) - known
    made = folder / "stubs.c"
    lines = [f"int {name}(void) {{ return fake_nvml_stub(); }}" for name in sorted(names)]
    made.write_text("\n".join(["int fake_nvml_stub(void);", *lines, ""]))
    return made


class FakeNvml:
    """GPUs at work by default. Every change is written at once and seen at the next call into the library."""

    def __init__(
        self, folder: Path, gpus: int = 8, node: str = "n01", name: str = "NVIDIA A100-SXM4-80GB",
        with_stubs: bool = False, without: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        self.library = build(folder, with_stubs, without)
        self.script = folder / "script"
        self.count = gpus
        self._map: dict[int, int] = {}
        self._rules: list[str] = []
        self._xids: list[str] = []
        self._gpus: dict[int, dict[str, Any]] = {}
        for gpu in range(gpus):
            self._gpus[gpu] = {
                "uuid": f"GPU-{node}-0000-0000-0000-{gpu:012d}",
                "name": name,
                "serial": f"16509{gpu:05d}",
                "pci": f"00000000:{0x1B + 16 * gpu:02X}:00.0",
                "power_mw": 330_000 + 1000 * gpu,
                "limit_mw": 400_000,
                "energy_mj": 1_000_000,
                "util": 98,
                "util_memory": 55,
                "memory_total": 80 << 30,
                "memory_used": 70 << 30,
                "temperature": 58,
                "sm_clock": 1380,
                "sm_clock_max": 1410,
                "ecc_volatile_corrected": 0,
                "ecc_volatile_uncorrected": 0,
                "ecc_aggregate_corrected": 3,
                "ecc_aggregate_uncorrected": 0,
                "remapped_uncorrected": 0,
                "processes": 1,
                "mig": 0,
                "ecc_mode": 1,
                "reasons": 0,
                "pcie_width": 16,
                "pcie_width_max": 16,
                "pcie_generation": 4,
                "pcie_replay": 0,
                "nvlinks": "1" * 12,
            }
        self._write()

    def uuid(self, gpu: int) -> str:
        return str(self._gpus[gpu]["uuid"])

    def set(self, gpu: int | None = None, **values: Any) -> None:
        """Values of one GPU, or of all. `None` = not supported."""
        for number in self._gpus if gpu is None else (gpu,):
            self._gpus[number].update(values)
        self._write()

    def spin(self, power_watts: float = 85.0) -> None:
        """All GPUs as in a hung collective."""
        for number in self._gpus:
            self._gpus[number].update(power_mw=int(power_watts * 1000) + 300 * number, util=100, util_memory=0)
        self._write()

    def error(self, gpu: int | str, function: str, code: int) -> None:
        self._rule(f"error {gpu} {function} {code}")

    def delay(self, gpu: int | str, function: str, seconds: float) -> None:
        self._rule(f"delay {gpu} {function} {int(seconds * 1000)}")

    def hang(self, gpu: int | str, function: str) -> None:
        self._rule(f"hang {gpu} {function}")

    def crash(self, gpu: int | str, function: str) -> None:
        self._rule(f"crash {gpu} {function}")

    def garbage(self, gpu: int | str, function: str) -> None:
        self._rule(f"garbage {gpu} {function}")

    def missing(self, function: str) -> None:
        self._rule(f"missing {function}")

    def xid(self, gpu: int, code: int) -> None:
        """An event of the driver, delivered once to who has registered for it."""
        self._xids.append(f"xid {len(self._xids) + 1} {gpu} {code}")
        self._write()

    def heal(self) -> None:
        """No errors, delays, hangs and crashes any more."""
        self._rules.clear()
        self._write()

    def enumerate(self, *gpus: int) -> None:
        """From the next nvmlInit on the indices 0, 1, ... mean these GPUs; the count changes at once."""
        self._map = dict(enumerate(gpus))
        self.count = len(gpus)
        self._write()

    def env(self) -> dict[str, str]:
        """For a process that shall load it."""
        return {**os.environ, "LD_LIBRARY_PATH": str(self.library.parent), "FAKE_NVML": str(self.script)}

    def _rule(self, line: str) -> None:
        self._rules.append(line)
        self._write()

    def _write(self) -> None:
        lines = [f"count {self.count}", *(f"map {index} {gpu}" for index, gpu in self._map.items())]
        for gpu, values in self._gpus.items():
            lines += [f"gpu {gpu} {key} {value}" for key, value in values.items() if value is not None]
        new = self.script.with_suffix(".new")
        new.write_text("\n".join([*lines, *self._rules, *self._xids, ""]))
        new.replace(self.script)
