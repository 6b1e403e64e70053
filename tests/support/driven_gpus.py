"""A source of GPU readings over the scripted library: its clock is moved by hand, its waits are real but short."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tests.support.fake_nvml import FakeNvml
from watcher.clock import SystemClock
from watcher.sources.nvml import COMMAND, NvmlSource

FIRST_DEADLINE, DEADLINE, GPU_SECONDS = 10.0, 0.9, 0.3  # for a process that starts, for an answer, for one GPU of it


class Driven:
    """A source whose clock is moved by hand and whose waits are real but short."""

    def __init__(self, fake: FakeNvml, command: Sequence[str] = COMMAND) -> None:
        self.clock = ShiftedClock()
        self.source = NvmlSource(self.clock, command, env=fake.env(), stuck_seconds=45, gpu_seconds=GPU_SECONDS)
        self.deadline = DEADLINE

    async def poll(self, seconds: float = 10.0) -> None:
        self.clock.shift += seconds
        await self.source.poll(self.deadline)

    async def until(self, wanted: Callable[[], bool], polls: int = 60) -> int:
        """Polls until it holds; answers how many it took."""
        for count in range(polls):
            if wanted():
                return count
            await self.poll()
            await asyncio.sleep(0.005)  # a call of the library may have to come to its end
        raise AssertionError(f"not within {polls} polls: {self.source.health()}")


class ShiftedClock(SystemClock):
    shift = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.shift


def driven(
    fake: FakeNvml, scenario: Callable[[Driven], Awaitable[None]], command: Sequence[str] = COMMAND,
    first_deadline: float = FIRST_DEADLINE,
) -> None:  # fmt: skip
    """Plays a scenario on a source that has been asked once."""

    async def play() -> None:
        one = Driven(fake, command)
        try:
            await one.source.poll(first_deadline)
            await scenario(one)
        finally:
            fake.heal()
            await one.source.close()

    asyncio.run(play())
