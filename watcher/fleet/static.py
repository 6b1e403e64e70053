"""Nodes that the config lists. `runs[].nodes` is the short form; this one may ask ClusterShell's node groups anew."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pydantic import Field, model_validator

from watcher.aside import aside
from watcher.clock import Clock
from watcher.fleet._api import FleetError, FleetPlugin, FleetSection, Job, Place
from watcher.fleet._hostlist import expand

DEADLINE_SECONDS = 20.0  # groups may run programs


class StaticSettings(FleetSection):
    poll_seconds: float = Field(default=60.0, ge=10, le=3600)


class StaticMatch(FleetSection):
    """nodes: a hostlist. groups: `@name` in it is a node group of this host's ClusterShell, asked at each poll."""

    nodes: str = Field(min_length=1, max_length=100_000)
    groups: bool = False

    @model_validator(mode="after")
    def _readable(self) -> StaticMatch:
        if not self.groups:
            expand(self.nodes)
        return self


class StaticSource:
    def __init__(self, settings: StaticSettings, matches: Sequence[StaticMatch], clock: Clock) -> None:
        self._matches = matches

    async def jobs(self) -> Sequence[Job]:
        expanding = aside(lambda: [listed(match) for match in dict.fromkeys(self._matches)])
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return await expanding
        except TimeoutError:
            raise FleetError("ClusterShell's node groups do not answer: try `nodeset -f @GROUP` here") from None
        except FleetError:
            raise
        except Exception as error:  # whatever a group's program does
            raise FleetError(f"the node list cannot be read: {error}"[:300]) from error

    async def aclose(self) -> None:
        """Nothing is held."""


def listed(match: StaticMatch) -> Job:
    nodes = expand(match.nodes, groups=match.groups)
    if not nodes:
        raise FleetError(f"{match.nodes!r} is no node at all: try `nodeset -e {match.nodes}` here")
    return Job(id=match.nodes, state="listed", places=tuple(Place(node=node) for node in nodes))


def accepts(match: StaticMatch, job: Job) -> bool:
    return job.id == match.nodes


PLUGIN = FleetPlugin("static", StaticSettings, StaticMatch, StaticSource, accepts)
