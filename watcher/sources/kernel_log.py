"""XIDs from the kernel's own log: they reach it also when NVML gives no events, or hangs.

`/dev/kmsg` answers one record a read, `priority,sequence,microseconds since boot,flags;text`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from detectors.telemetry import SourceHealth
from watcher.clock import Clock
from watcher.sources.xid_lines import XidLines

KMSG = Path("/dev/kmsg")
OLDEST_SECONDS = 600.0  # what was written before is history and not news
MAX_RECORDS = 5_000  # a read


@dataclass(frozen=True, slots=True)
class KernelXid:
    at: float  # monotonic seconds
    code: int
    pci_bus_id: str
    message: str


class KernelLog:
    """`read()` never blocks and never raises; `health` says why nothing can be read."""

    def __init__(self, clock: Clock, path: Path = KMSG) -> None:
        self._clock, self._path = clock, path
        self._fd: int | None = None
        self._problem: tuple[str, str] | None = None
        self._read_at: float | None = None
        self._lines = XidLines()

    def read(self) -> list[KernelXid]:
        if self._fd is None and not self._open():
            return []
        now = self._clock.monotonic()
        out = []
        for at, text in self._records():
            found = self._lines.understand(text)
            if found is not None and now - at <= OLDEST_SECONDS:
                out.append(KernelXid(at, *found))
        self._read_at = now
        return out

    def health(self) -> SourceHealth:
        age = None if self._read_at is None else self._clock.monotonic() - self._read_at
        kind, error = self._problem or (None, None)
        return SourceHealth(ok=self._problem is None, kind=kind, error=error, age_seconds=age)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> bool:
        try:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            kind = "no_permission" if error.errno in (errno.EACCES, errno.EPERM) else "missing"
            advice = "; XIDs are read through NVML alone. It needs CAP_SYSLOG or kernel.dmesg_restrict=0"
            self._problem = (kind, f"{self._path}: {error.strerror}{advice if kind == 'no_permission' else ''}")
            return False
        self._problem = None
        return True

    def _records(self) -> Iterator[tuple[float, str]]:
        assert self._fd is not None
        for _ in range(MAX_RECORDS):
            try:
                data = os.read(self._fd, 8192)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.EPIPE:  # overwritten before we came: the next read goes on behind the gap
                    continue
                self._problem = ("unreadable", f"{self._path}: {error.strerror}")
                self.close()
                return
            if not data:
                return
            head, _, text = data.decode("utf-8", "replace").partition(";")
            fields = head.split(",")
            if len(fields) >= 3 and fields[2].isdigit():
                yield int(fields[2]) / 1e6, text.partition("\n")[0]
