"""The kernel's words on GPUs, from /dev/kmsg, or from the journal where that may not be read."""

from __future__ import annotations

from typing import Protocol

from detectors.telemetry import SourceHealth
from watcher.clock import Clock
from watcher.sources.journal import Journal
from watcher.sources.kernel_log import KernelLog, KernelXid


class XidSource(Protocol):
    """Neither blocks nor raises."""

    def read(self) -> list[KernelXid]: ...

    def health(self) -> SourceHealth: ...

    def close(self) -> None: ...


class Kernel:
    """`log` is tried first, each time."""

    def __init__(self, clock: Clock, log: XidSource | None = None, journal: XidSource | None = None) -> None:
        self._log, self._journal = log or KernelLog(clock), journal or Journal(clock)
        self._by_journal = False

    def read(self) -> list[KernelXid]:
        found = self._log.read()
        health = self._log.health()
        if health.ok:
            if self._by_journal:
                self._journal.close()
            self._by_journal = False
            return found
        self._by_journal = True
        return self._journal.read()

    def health(self) -> SourceHealth:
        """Of the one that is read; where neither can be, what would let the first be."""
        journal = self._journal.health()
        return journal if self._by_journal and journal.ok else self._log.health()

    def close(self) -> None:
        self._log.close()
        self._journal.close()
