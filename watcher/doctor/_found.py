"""The runs that there are now: those of the config with their nodes, and those that its fleet sources find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from watcher.clock import Clock
from watcher.config.daemon import DaemonConfig, RunSection
from watcher.config.fleet import build_feeds
from watcher.daemon.fleet import Feed
from watcher.fleet._api import FleetError, Job
from watcher.fleet._group import Sight, sights
from watcher.fleet._log_paths import paths_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A run. `source` and what it says: None where the config lists the nodes. error: it does not answer."""

    section: RunSection
    source: str | None = None
    sight: Sight | None = None
    error: str | None = None

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(place.node for place in self.sight.places) if self.sight is not None else self.section.nodes


async def found_runs(config: DaemonConfig, clock: Clock) -> list[Found]:
    """In the order of the config. A rule whose name holds placeholders and that finds nothing stands for itself."""
    told: dict[str, list[Found]] = {run.name: [Found(section=run)] for run in config.runs if run.match is None}
    sections = {run.name: run for run in config.runs}
    for feed in build_feeds(config, clock):
        told |= await _ask(feed, sections)
    return [found for run in config.runs for found in told[run.name]]


async def _ask(feed: Feed, sections: dict[str, RunSection]) -> dict[str, list[Found]]:
    """By the rule's name."""
    try:
        jobs: Sequence[Job] = await feed.source.jobs()
        error = None
    except FleetError as caught:
        jobs, error = (), str(caught)
    finally:
        await feed.source.aclose()
    found: dict[str, list[Found]] = {}
    for rule, sight in sights(feed.name, feed.rules, jobs).values() if error is None else ():
        section = _section(sections[rule.name], sight)
        found.setdefault(rule.name, []).append(Found(section=section, source=feed.name, sight=sight))
    for rule in feed.rules:
        found.setdefault(rule.name, [Found(section=sections[rule.name], source=feed.name, error=error)])
    return found


def _section(section: RunSection, sight: Sight) -> RunSection:
    """As the daemon watches this run: under its own name, with the paths that its job fills in."""
    logs = section.logs
    if sight.job is not None:
        logs = tuple(
            log.model_copy(update={"path": path})
            for log in logs
            for path in (paths_of(log.path, sight.job) if log.tail == "daemon" else (log.path,))
        )
    return section.model_copy(update={"name": sight.run, "logs": logs})
