"""A real systemd as process 1 of a container whose root is this machine's, with a scratch layer over it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.tools import tool

BOOT_SECONDS = 30.0
TARGET = "[Unit]\nRequires=basic.target\nAfter=basic.target\n"

PLAIN = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/root"}


class Booted:
    """`root`: the container's root, as seen from here; `run` runs a command inside."""

    def __init__(self, root: Path, pid: int) -> None:
        self.root, self.pid = root, pid

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        inside = ["nsenter", "-t", str(self.pid), "-a", *command]
        return subprocess.run(inside, check=check, capture_output=True, text=True, timeout=120, env=PLAIN)

    def show(self, unit: str, name: str) -> str:
        return self.run("systemctl", "show", "-P", name, unit).stdout.strip()

    def until(self, look: Callable[[], str], wanted: str, seconds: float = 30.0) -> None:
        """Until `look` gives a text with `wanted` in it."""
        deadline = time.monotonic() + seconds
        while wanted not in (seen := look()):
            if time.monotonic() > deadline:
                journal = self.run("journalctl", "--no-pager", "-n", "60", check=False).stdout
                raise AssertionError(f"not within {seconds:g} s: {wanted!r}, but {seen!r}\n{journal}")
            time.sleep(0.1)


@contextmanager
def booted(folder: Path, prepare: Callable[[Path], None], binds: dict[Path, str]) -> Iterator[Booted]:
    """Boots systemd over a copy-on-write view of /. `prepare` writes into that root first; `binds`: here -> inside."""
    nspawn = _can_boot()
    layers, root = folder / "layers", folder / "root"
    layers.mkdir()
    root.mkdir()
    _sh("mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", str(layers))
    try:
        (layers / "upper").mkdir()
        (layers / "work").mkdir()
        over = f"lowerdir=/,upperdir={layers}/upper,workdir={layers}/work"
        if subprocess.run(["mount", "-t", "overlay", "overlay", "-o", over, str(root)], capture_output=True).returncode:
            pytest.skip("needs a kernel that lays a scratch layer over /")
        (root / "etc/systemd/system/small.target").write_text(TARGET)
        prepare(root)
        # Whatever services this machine has, they stay off: the target wants none of them.
        name = f"runwatch-{uuid.uuid4().hex[:8]}"
        command = [
            nspawn, "-q", "-D", str(root), "--register=no", "--keep-unit", "--private-network", "-M", name, "-b",
            "--console=read-only", *(f"--bind-ro={here}:{inside}" for here, inside in binds.items()),
            "systemd.unit=small.target",
        ]  # fmt: skip
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as boot:
            try:
                yield _ready(Booted(root, _init_of(boot)), boot)
            finally:
                boot.terminate()  # nspawn asks its init to power off
                with suppress(subprocess.TimeoutExpired):
                    boot.communicate(timeout=20)
                boot.kill()
    finally:
        for mount in (root, layers):
            subprocess.run(["umount", "-l", str(mount)], capture_output=True)


def system_python() -> str:
    """A Python that services without a home see, of this one's version; skips where there is none."""
    name = f"/usr/bin/python3.{sys.version_info.minor}"
    if not os.access(name, os.X_OK):
        pytest.skip(f"needs {name}: services do not see {sys.executable}")
    return name


def _can_boot() -> str:
    if os.geteuid() != 0:
        pytest.skip("needs root, to boot a container")
    return tool("systemd-nspawn", "Debian package systemd-container")


def _init_of(boot: subprocess.Popen[bytes]) -> int:
    children = Path(f"/proc/{boot.pid}/task/{boot.pid}/children")
    deadline = time.monotonic() + BOOT_SECONDS
    while boot.poll() is None and time.monotonic() < deadline:
        if pids := children.read_text().split():
            return int(pids[0])
        time.sleep(0.05)
    said = boot.stdout.read().decode(errors="replace") if boot.poll() is not None and boot.stdout else ""
    pytest.skip(f"no container can be booted here: {said[-300:]}")


def _ready(machine: Booted, boot: subprocess.Popen[bytes]) -> Booted:
    deadline = time.monotonic() + BOOT_SECONDS
    while boot.poll() is None and time.monotonic() < deadline:
        with suppress(subprocess.TimeoutExpired):
            if machine.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded"):
                return machine
        time.sleep(0.1)
    pytest.skip("no systemd can be booted here as process 1 of a container")


def _sh(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
