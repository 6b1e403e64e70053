"""What the processes that hold the GPUs do, with those they started: CPU time, memory, reads and writes, state D."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from watcher.sources.host_parents import Parents
from watcher.sources.rates import Rates

MAX_PROCESSES = 2_000
LOOK_SECONDS = 30.0  # between two searches for processes that were started since: all of /proc is listed
MAX_NAMED = 20
CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class RunReading:
    """None where no process holds a GPU, or where they cannot be looked at."""

    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    cpu_cores: float | None = None
    read_bytes_per_second: float | None = None
    write_bytes_per_second: float | None = None
    in_disk_sleep: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()


class RunProcesses:
    """Data loaders do the reading, so children count; which there are is looked up now and then, for that is dear."""

    def __init__(self) -> None:
        self._rates, self._parents = Rates(), Parents()
        self._family: dict[int, psutil.Process] = {}
        self._holders: frozenset[int] = frozenset()
        self._looked_at: float | None = None

    def read(self, pids: Collection[int], now: float) -> RunReading:
        """`now`: monotonic seconds. Processes that end meanwhile are left out, and with them their rates."""
        due = self._looked_at is None or now - self._looked_at >= LOOK_SECONDS
        if due or frozenset(pids) != self._holders:
            self._holders, self._family, self._looked_at = frozenset(pids), self._with_children(pids), now
        memory, alive = 0, False
        sleeping: list[str] = []
        folders: set[Path] = set()
        rates: dict[str, list[float]] = {"cpu": [], "read": [], "write": []}
        for pid, process in self._family.items():
            try:
                with process.oneshot():
                    cpu, started = process.cpu_times(), process.create_time()
                    memory += process.memory_info().rss
                    if process.status() == psutil.STATUS_DISK_SLEEP and len(sleeping) < MAX_NAMED:
                        sleeping.append(f"{pid} {process.name()}")
            except psutil.Error:
                continue
            alive = True
            counters = {"cpu": cpu.user + cpu.system}
            try:  # of other users only where we may
                io = process.io_counters()
                counters.update(read=io.read_chars, write=io.write_chars)
                if pid in self._holders:
                    folders.add(Path(process.cwd()))
            except psutil.Error:
                pass
            for name, value in counters.items():
                rate = self._rates.per_second(f"{pid}/{started}", name, value, now)
                if rate is not None:
                    rates[name].append(rate)
        self._rates.forget_before(now)
        if not alive:
            return RunReading()
        cores, read, written = (sum(known) if known else None for known in rates.values())
        return RunReading(
            memory_bytes=memory,
            memory_limit_bytes=_memory_limit(self._holders),
            cpu_cores=cores,
            read_bytes_per_second=read,
            write_bytes_per_second=written,
            in_disk_sleep=tuple(sleeping),
            folders=tuple(sorted(folders)),
        )

    def _with_children(self, pids: Collection[int]) -> dict[int, psutil.Process]:
        children = self._parents.children() if pids else {}
        out: dict[int, psutil.Process] = {}
        waiting = list(pids)
        while waiting and len(out) < MAX_PROCESSES:
            pid = waiting.pop()
            if pid in out:
                continue
            try:
                before = self._family.get(pid)
                out[pid] = before if before is not None and before.is_running() else psutil.Process(pid)
            except psutil.Error:
                continue
            waiting += children.get(pid, ())
        return out


def _memory_limit(pids: Iterable[int]) -> int | None:
    """The limit of the control group of the first process that has one, or of a group above it."""
    for pid in sorted(pids):
        try:
            line = next(x for x in Path(f"/proc/{pid}/cgroup").read_text().splitlines() if x.startswith("0::"))
        except (OSError, StopIteration):
            continue
        group = CGROUPS / line[3:].lstrip("/")
        limits = []
        while group != CGROUPS and CGROUPS in group.parents:
            try:
                text = (group / "memory.max").read_text().strip()
            except OSError:
                text = ""
            if text.isdigit():
                limits.append(int(text))
            group = group.parent
        return min(limits, default=None)
    return None
