"""The only place that knows what time it is. Everything else takes `now` as an argument."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Unix seconds for instants, monotonic seconds for differences. `scale` > 1 lives faster (tests, demo)."""

    def time(self) -> float: ...

    def monotonic(self) -> float: ...

    def real_seconds(self, seconds: float) -> float:
        """How long `seconds` of this clock last on the wall: what a time-out or an interval trigger needs."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def wait(self, event: threading.Event, seconds: float) -> bool: ...


class SystemClock:
    """The machine's clock; with a scale it runs that many times faster from `epoch` (unix seconds, default now) on.

    Processes with one epoch and scale agree on the time, also after a restart of one of them.
    """

    def __init__(self, scale: float = 1.0, epoch: float | None = None) -> None:
        if scale <= 0:
            raise ValueError("clock_scale must be above 0")
        self.scale = scale
        self._time_zero = time.time() if epoch is None else epoch
        self._monotonic_zero = time.monotonic()

    def time(self) -> float:
        if self.scale == 1.0:
            return time.time()
        return self._time_zero + (time.time() - self._time_zero) * self.scale

    def monotonic(self) -> float:
        return self._monotonic_zero + (time.monotonic() - self._monotonic_zero) * self.scale

    def real_seconds(self, seconds: float) -> float:
        return seconds / self.scale

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(self.real_seconds(seconds))

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(self.real_seconds(seconds))


class FakeClock:
    """A clock that moves only when told to; `sleep` and `wait` advance it."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now
        self._zero = now

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now - self._zero

    def real_seconds(self, seconds: float) -> float:
        return 0.0 * seconds

    def advance(self, seconds: float) -> None:
        self.now += seconds

    async def sleep(self, seconds: float) -> None:
        self.advance(max(0.0, seconds))
        await asyncio.sleep(0)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if not event.is_set():
            self.advance(max(0.0, seconds))
        return event.is_set()
