"""The node apart from its GPUs: memory, disks, links, and what the processes that hold the GPUs do.

Everything here may block on a dead file system: call `read` in a thread.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path

import psutil

from detectors.telemetry import HostReading
from watcher.clock import Clock
from watcher.sources.host_links import read_links
from watcher.sources.host_processes import RunProcesses
from watcher.sources.rates import Rates

MAX_DISKS = 32


class HostSource:
    """`folders`: whose disks are looked at besides those that the processes work in. `root`: of /proc/sys and /sys."""

    def __init__(self, clock: Clock, folders: Iterable[Path] = (), root: Path = Path("/")) -> None:
        self._clock, self._root = clock, root
        self._folders = (Path("/"), Path("/tmp"), *folders)
        self._rates = Rates()
        self._processes = RunProcesses()

    def read(self, pids: Collection[int]) -> HostReading:
        """`pids`: the processes that hold GPUs. Raises OSError where /proc cannot be read."""
        now = self._clock.monotonic()
        memory = psutil.virtual_memory()
        run = self._processes.read(pids, now)
        links = read_links(self._root)
        shm = _usage(Path("/dev/shm"))
        return HostReading(
            boot_id=_text(self._root / "proc/sys/kernel/random/boot_id"),
            uptime_seconds=max(0.0, self._clock.time() - psutil.boot_time()),
            load_average=os.getloadavg()[0],
            memory_used_bytes=memory.total - memory.available,
            memory_total_bytes=memory.total,
            run_memory_bytes=run.memory_bytes,
            run_memory_limit_bytes=run.memory_limit_bytes,
            run_cpu_cores=run.cpu_cores,
            run_read_bytes_per_second=run.read_bytes_per_second,
            run_write_bytes_per_second=run.write_bytes_per_second,
            network_bytes_per_second=self._rates.per_second("node", "network", links.bytes_moved, now),
            processes_in_disk_sleep=run.in_disk_sleep,
            shm_used_bytes=None if shm is None else shm[0],
            shm_total_bytes=None if shm is None else shm[1],
            disks=_disks([*self._folders, *run.folders]),
            links_down=links.down,
            link_flaps=links.flaps,
        )


def _disks(folders: Iterable[Path]) -> dict[str, tuple[int, int]]:
    """Mount point -> used and total bytes, each disk once."""
    out: dict[str, tuple[int, int]] = {}
    seen: set[int] = set()
    for folder in folders:
        try:
            device = folder.stat().st_dev
        except OSError:
            continue
        usage = _usage(folder) if device not in seen and len(out) < MAX_DISKS else None
        seen.add(device)
        if usage is not None:
            out[str(_mount_point(folder, device))] = usage
    return out


def _mount_point(folder: Path, device: int) -> Path:
    place = folder.resolve()
    while place != place.parent and place.parent.stat().st_dev == device:
        place = place.parent
    return place


def _usage(folder: Path) -> tuple[int, int] | None:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None
    total = disk.f_blocks * disk.f_frsize
    used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize
    return (used, used + disk.f_bavail * disk.f_frsize) if total else None  # what a user may still fill


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()[:64] or None
    except OSError:
        return None
