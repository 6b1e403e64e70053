"""What a fleet source is to the rest of the program: one file = one plug-in that owns two config sections.

`fleet.NAME` says how the source is asked, `runs[].match.NAME` which of its jobs are a run. A source answers jobs; which
of them are one run, and which is its present attempt, is decided for all sources alike (`_group.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict

import watcher.fleet
from detectors import plugins
from detectors.frame import ENDED_STATES
from watcher.clock import Clock

JobState = Literal[
    "listed",  # a list of nodes that knows of no jobs
    "pending", "running", "completed", "failed", "timeout", "cancelled", "node_fail", "preempted", "out_of_memory",
    "gone",  # no longer told of; how it ended is not known
]  # fmt: skip


class FleetError(Exception):
    """The source cannot tell now; one readable line that says what to do. Never taken for "no jobs"."""


class FleetSection(BaseModel):
    """Base of the sections that a source owns."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A node of a job. `gpu_minors`: numbers of its devices there (/dev/nvidiaN); None: not known, all count."""

    node: str
    gpu_minors: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One launch as its source tells it. Instants in unix seconds of the source's clock.

    id: as people write it (123, 123_4, NAMESPACE/NAME). labels: what `runs[].name` may be made of. restarts: a requeue
    keeps the id. part_of: jobs that run as one. held: waits for a person, or for ever. releasing: its nodes are not
    free yet. ends_by_at: the time limit of a running job.
    """

    id: str
    state: JobState
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    restarts: int = 0
    places: tuple[Place, ...] = ()
    part_of: str = ""
    submitted_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    ends_by_at: float | None = None
    held: bool = False
    releasing: bool = False
    reason: str = ""
    failed_node: str | None = None
    log_path: str | None = None  # what it writes to, as the source reports it
    log_names: Mapping[str, str] = field(default_factory=dict)  # what the placeholders of a log's path stand for

    @property
    def over(self) -> bool:
        """It has ended, and how is known."""
        return self.state in ENDED_STATES


class FleetSource(Protocol):
    """Asked at most once per `poll_seconds` of its section, for all runs together."""

    async def jobs(self) -> Sequence[Job]:
        """All jobs that any rule may want: waiting, running, and ended a short while ago. Raises FleetError."""

    async def aclose(self) -> None:
        """Lets go of what it holds."""


@dataclass(frozen=True, slots=True)
class FleetPlugin:
    """`settings`: the section `fleet.NAME`, all with defaults and `poll_seconds`. `match`: the section of a run.

    build(settings, matches, clock): touches nothing outside before the first `jobs`. accepts(match, job): is the job of
    that run? labels: what a job's `labels` hold, for `runs[].name`. short: keys of `match` that may also be written
    as NAME_KEY.
    """

    name: str
    settings: type[FleetSection]
    match: type[FleetSection]
    build: Callable[[Any, Sequence[Any], Clock], FleetSource]
    accepts: Callable[[Any, Job], bool]
    labels: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    needs: str | None = None


@cache
def load_fleet() -> dict[str, FleetPlugin]:
    """All kinds by name. Raises PluginError with the name of a broken one."""
    return plugins.load(watcher.fleet, FleetPlugin, "fleet source")
