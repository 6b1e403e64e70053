"""Runs that fleet sources find: asked in the background, taken up between two cycles; ended ones stay for a day."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType

from alerts.incidents import Judged
from watcher.clock import Clock
from watcher.daemon.fleet_silent import fleet_silent
from watcher.daemon.job_logs import JobLogs
from watcher.daemon.pipeline import WatchedRun
from watcher.daemon.shared_logs import LogReader
from watcher.fleet._api import FleetError, FleetSource, Job
from watcher.fleet._group import MAX_RUNS as MAX_OF_RULE
from watcher.fleet._group import Rule, Sight, sight_of, sights

log = logging.getLogger(__name__)
LINGER_SECONDS = 120.0  # nodes are watched on after an end: what let go of them, and which GPU failed
KEPT_SECONDS = 86_400.0
MAX_RUNS = 500
MAKES_ROOM_SECONDS = 3600.0  # so long an ended run stays whatever comes


@dataclass(slots=True)
class Feed:
    """One source with the rules that it serves. `failures`: polls running that told nothing."""

    name: str
    source: FleetSource
    rules: Sequence[Rule]
    poll_seconds: float
    failures: int = 0
    error: str | None = None
    answered_at: float | None = None
    _due_at: float = float("-inf")  # monotonic
    _asking: asyncio.Task[Sequence[Job]] | None = None

    def turn(self, now: float, monotonic: float) -> Sequence[Job] | None:
        """The jobs, once for each poll; None while nothing new is known. Asks anew when that is due."""
        told = None
        if self._asking is not None and self._asking.done():
            told = self._take(now, self._asking)
            self._asking = None
        if self._asking is None and monotonic >= self._due_at:
            self._due_at = monotonic + self.poll_seconds * min(4, 1 + self.failures)  # a sick controller is spared
            self._asking = asyncio.get_running_loop().create_task(_ask(self.source))
        return told

    def _take(self, now: float, asking: asyncio.Task[Sequence[Job]]) -> Sequence[Job] | None:
        error = asking.exception() if not asking.cancelled() else None
        if error is None and not asking.cancelled():
            if self.failures:
                log.info("fleet source=%s answers again", self.name)
            self.failures, self.error, self.answered_at = 0, None, now
            return asking.result()
        text = str(error) if isinstance(error, FleetError) else repr(error)
        if not self.failures:
            log.warning("fleet source=%s tells nothing: %s", self.name, text)
        self.failures, self.error = self.failures + 1, text[:300]
        return None

    async def aclose(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self.source.aclose()


async def _ask(source: FleetSource) -> Sequence[Job]:
    return await source.jobs()


@dataclass(slots=True)
class FoundRun:
    """`rule`: the name in the config that it came by. `alive_at`: when something last ran or waited."""

    watched: WatchedRun
    readers: Sequence[LogReader]
    rule: str
    is_pattern: bool
    alive_at: float
    empty_since_at: float | None = None
    entered: bool = False
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)  # its readers

    @property
    def name(self) -> str:
        return self.watched.fold.settings.name


Make = Callable[[str, str], tuple[WatchedRun, Sequence[LogReader]]]  # the rule's name, the run's


@dataclass(slots=True)
class FleetWatch:
    """`runs`: those of the daemon; found ones are put into it and taken out of it. `make`: a run by rule and name."""

    feeds: Sequence[Feed]
    make: Make
    runs: list[WatchedRun]
    clock: Clock
    found: dict[str, FoundRun] = field(default_factory=dict)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _left: list[FoundRun] = field(default_factory=list)  # no longer kept, to be let go of
    _said: set[str] = field(default_factory=set)

    async def __aenter__(self) -> FleetWatch:
        for feed in self.feeds:
            self._stack.push_async_callback(feed.aclose)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for run in [*self.found.values(), *self._left]:
            await run.stack.aclose()
        await self._stack.aclose()

    @property
    def readers(self) -> list[LogReader]:
        return [reader for run in self.found.values() if run.entered for reader in run.readers]

    def restore(self, state: bytes | None) -> None:
        """Runs that an earlier process had found, and those that always are."""
        now = self.clock.time()
        for rule in (rule for feed in self.feeds for rule in feed.rules):
            if not rule.is_pattern:
                self._add(rule, rule.name, now)
        try:
            kept = json.loads(state) if state is not None else {}
            rules = {rule.name: rule for feed in self.feeds for rule in feed.rules}
            taken = {run.fold.settings.name for run in self.runs}  # perhaps by a config that was changed meanwhile
            for name, (rule_name, alive_at) in kept.items():
                if rule_name in rules and name not in taken:
                    self._add(rules[rule_name], name, float(alive_at))
        except (ValueError, TypeError, AttributeError) as error:
            log.warning("which runs were found before cannot be read: they are found anew err=%r", error)

    def dump(self) -> bytes:
        return json.dumps(
            {run.name: [run.rule, run.alive_at] for run in self.found.values() if run.is_pattern}
        ).encode()

    async def update(self, now: float) -> list[str]:
        """Takes what the sources have told since the last cycle. Answers the names of runs that are no longer kept."""
        for feed in self.feeds:
            jobs = feed.turn(now, self.clock.monotonic())
            if jobs is not None:
                self._take(now, feed, jobs)
        for run in self.found.values():
            if run.empty_since_at is not None and now - run.empty_since_at > LINGER_SECONDS:
                run.watched.fold.set_nodes(())
            if not run.entered:
                for reader in run.readers:
                    await run.stack.enter_async_context(reader)
                run.entered = True
        old = [run for run in self.found.values() if run.is_pattern and now - run.alive_at > KEPT_SECONDS]
        for run in old:
            self._forget(run)
        left, self._left = self._left, []
        for run in left:
            await run.stack.aclose()
        return [run.name for run in left]

    def _forget(self, run: FoundRun) -> None:
        del self.found[run.name]
        self.runs.remove(run.watched)
        self._left.append(run)

    def judged(self) -> list[Judged]:
        return [fleet_silent(feed.name, feed.failures, feed.error) for feed in self.feeds]

    def _take(self, now: float, feed: Feed, jobs: Sequence[Job]) -> None:
        own = {rule.name for rule in feed.rules}
        told = sights(feed.name, feed.rules, jobs, {run.name for run in self.found.values() if run.rule in own})
        for name, count in Counter(rule.name for rule, _ in told.values()).items():
            if count >= MAX_OF_RULE:
                self._once(name, f"more than the {count} runs that it finds are not watched: match more narrowly")
        for name, (rule, sight) in told.items():
            known = self.found.get(name)
            if known is not None and known.rule != rule.name:
                self._once(name, f"rule {known.rule} has found it, what rule {rule.name} calls so is not watched")
                continue
            if known is None:
                job = sight.job
                if job is None or job.over or job.state == "gone":
                    continue  # it ended before anybody looked
                if any(run.fold.settings.name == name for run in self.runs):
                    self._once(name, "not watched, another run of the config has its name")
                    continue
                if len(self.found) >= MAX_RUNS:
                    ended = self._longest_over(now)
                    if ended is None:
                        self._once(name, f"not watched, {MAX_RUNS} runs are found already")
                        continue
                    self._forget(ended)
                log.info("fleet run=%s found by source=%s", name, feed.name)
                known = self._add(rule, name, now)
            self._see(now, known, sight)
        for run in self.found.values():
            if run.rule in own and run.name not in told:
                self._see(now, run, sight_of(run.name, feed.name, ()))

    def _longest_over(self, now: float) -> FoundRun | None:
        over = [run for run in self.found.values() if run.is_pattern and now - run.alive_at > MAKES_ROOM_SECONDS]
        return min(over, key=lambda run: run.alive_at, default=None)

    def _once(self, name: str, why: str) -> None:
        if name not in self._said and len(self._said) < 10 * MAX_RUNS:
            self._said.add(name)
            log.warning("fleet run=%s: %s", name, why)

    def _see(self, now: float, run: FoundRun, sight: Sight) -> None:
        fold, scheduler, job = run.watched.fold, sight.scheduler, sight.job
        if sight.places:
            run.empty_since_at = None
            fold.set_nodes(sight.places, scheduler.started_at if scheduler is not None else None)
        elif run.empty_since_at is None:
            run.empty_since_at = now
        if scheduler is not None:
            fold.observe_scheduler(now, scheduler, sight.ended)
        if job is not None and not job.over and job.state != "gone":
            run.alive_at = now
        if job is not None and job.state not in ("pending", "gone"):  # also one that came and went between two polls
            run.watched.fold.of_job(job)
            for reader in run.readers:
                if isinstance(reader, JobLogs):
                    reader.of_job(now, job)

    def _add(self, rule: Rule, name: str, alive_at: float) -> FoundRun:
        watched, readers = self.make(rule.name, name)
        run = FoundRun(watched, readers, rule.name, rule.is_pattern, alive_at)
        self.found[name] = run
        self.runs.append(watched)
        return run
