"""The strike ledger: hardware events per node and GPU, over runs, attempts, reboots and restarts. Pure.

Everything about one GPU (or one host, where no GPU is known) within five minutes is one event, except in two attempts
of a run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from detectors.frame import Strike

ONE_EVENT_SECONDS = 300.0
KEPT_SECONDS = 90 * 86_400.0
KEPT = 10_000
SOFT = ("crash_start",)  # counts only after a hardware strike on the same node


class Ledger:
    """One for the daemon; every run writes into it and sees the strikes of its own nodes."""

    def __init__(self, strikes: Iterable[Strike] = ()) -> None:
        self._strikes: list[Strike] = list(strikes)

    def add(self, strike: Strike) -> bool:
        """False where it belongs to an event that is known or, a crash, follows no hardware strike."""
        node = [s for s in self._strikes if s.node == strike.node]
        if strike.kind in SOFT and not any(s.counted and s.kind not in SOFT for s in node):
            return False
        for known in node:
            if (
                known.run == strike.run
                and None not in (known.attempt, strike.attempt)
                and known.attempt != strike.attempt
            ):
                continue  # two launches that follow at once: it has happened again
            same_gpu = known.gpu_uuid == strike.gpu_uuid or known.gpu_uuid is None or strike.gpu_uuid is None
            if same_gpu and abs(known.at - strike.at) <= ONE_EVENT_SECONDS and known.counted >= strike.counted:
                self._sharpen(known, strike)
                return False
        self._strikes.append(strike)
        oldest = strike.at - KEPT_SECONDS
        self._strikes = [s for s in self._strikes if s.at >= oldest][-KEPT:]
        return True

    def _sharpen(self, known: Strike, strike: Strike) -> None:
        """A second report of one event may know the GPU that the first did not."""
        if known.gpu_uuid is None and strike.gpu_uuid is not None:
            place = self._strikes.index(known)
            self._strikes[place] = replace(
                known,
                gpu_uuid=strike.gpu_uuid,
                gpu_index=strike.gpu_index,
                serial=strike.serial,
                pci_bus_id=strike.pci_bus_id,
            )

    def of(self, nodes: Iterable[str]) -> tuple[Strike, ...]:
        wanted = set(nodes)
        return tuple(s for s in self._strikes if s.node in wanted)

    def all(self) -> tuple[Strike, ...]:
        return tuple(self._strikes)

    def dump(self) -> list[dict[str, Any]]:
        return [asdict(strike) for strike in self._strikes]

    @classmethod
    def load(cls, rows: Iterable[dict[str, Any]]) -> Ledger:
        return cls(Strike(**row) for row in rows)
