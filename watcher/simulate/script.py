"""What happens in a simulated run, second by second: stretches of one kind, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

Kind = Literal["free", "startup", "train", "evaluate", "save", "spin", "idle"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """`seconds` of one kind. `first_step`: where a start-up resumes."""

    kind: Kind
    seconds: float
    first_step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """`odd`: the GPU (node index, GPU index) that does not spin with the others in a hang; None = no one differs."""

    name: str
    about: str
    stretches: tuple[Stretch, ...]
    signature: str  # what the watchdog shall say
    odd: tuple[int, int] | None = (1, 5)
    step_seconds: float = 10.0
    total_steps: int = 5000
    starts: tuple[float, ...] = field(init=False)

    def __post_init__(self) -> None:
        starts, t = [], 0.0
        for stretch in self.stretches:
            starts.append(t)
            t += stretch.seconds
        object.__setattr__(self, "starts", tuple(starts))

    @property
    def seconds(self) -> float:
        return self.starts[-1] + self.stretches[-1].seconds

    def at(self, t: float) -> tuple[Stretch, float]:
        """The stretch at second `t` and how long it has lasted; the last one lasts for ever."""
        for start, stretch in reversed(list(zip(self.starts, self.stretches, strict=True))):
            if t >= start:
                return stretch, t - start
        return self.stretches[0], 0.0


def _training(first_step: int) -> tuple[Stretch, ...]:
    return (
        Stretch("startup", 60, first_step),
        Stretch("train", 240),
        Stretch("save", 30),
        Stretch("train", 120),
        Stretch("evaluate", 40),
        Stretch("train", 180),
    )


GOES_ON = (Stretch("save", 30), Stretch("train", 300), Stretch("evaluate", 40), Stretch("train", 240))


def going_on(script: Script, times: int = 500) -> Script:
    """After its end the run works on, with saves and evaluations, for as long as anybody may look at it."""
    return replace(script, stretches=(*script.stretches, *GOES_ON * times), total_steps=50_000)


SCRIPTS = {
    script.name: script
    for script in (
        Script(
            name="deadlock",
            about="a collective hangs: all GPUs at 100 % and 22 % of their power, one at 0 %",
            stretches=(
                *_training(4100),
                Stretch("spin", 300),
                Stretch("free", 30),
                Stretch("startup", 60, 4124),
                Stretch("train", 180),
            ),
            signature="low_power_deadlock",
        ),
        Script(
            name="dataloader",
            about="the data loader dies: all GPUs at 0 % with their memory held",
            stretches=(
                *_training(4100),
                Stretch("idle", 780),
                Stretch("free", 30),
                Stretch("startup", 60, 4124),
                Stretch("train", 180),
            ),
            signature="idle_stall",
            odd=None,
        ),
    )
}
