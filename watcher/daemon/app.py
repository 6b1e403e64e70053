"""The daemon's life: ask all agents, fold, judge, store, send, and say outside that all of it worked."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from alerts.desk import AlertDesk
from alerts.facts import RunFacts, facts_from_frame
from alerts.incidents import Judged, Transition
from alerts.worker import Worker
from detectors.frame import Frame
from watcher.clock import Clock
from watcher.daemon.acting import Actor
from watcher.daemon.answer import Answer, AnswerSource
from watcher.daemon.dead_man import DeadManSwitch
from watcher.daemon.evaluate import Evaluator, watching
from watcher.daemon.fleet import FleetWatch
from watcher.daemon.fold import RunFold
from watcher.daemon.lateness import lateness
from watcher.daemon.ledger import Ledger
from watcher.daemon.merge import merge
from watcher.daemon.pipeline import WatchedRun, tell_open
from watcher.daemon.recording import Recorder
from watcher.daemon.shared_logs import LogReader
from watcher.daemon.silences import Silences
from watcher.daemon.watchdog_alert import WatchdogAlert

if TYPE_CHECKING:
    from watcher.tls import ServerTls

log = logging.getLogger(__name__)
JUMP_POLLS = 6.0  # a pause or a jump of the clock larger than this: look again before judging


def patience_seconds(interval_seconds: float) -> float:
    """How long no cycle may work before the daemon counts as stuck."""
    return 6 * interval_seconds + 30


@dataclass(slots=True)
class Health:
    """What /healthz, /metrics and the dead-man's switch go by. Instants in unix seconds."""

    started_at: float
    last_tick_at: float | None = None
    last_ok_at: float | None = None  # the last cycle that did not fail
    last_good_cycle_at: float | None = None
    tick_seconds: float = 0.0
    ticks_count: int = 0
    skipped_count: int = 0  # looked without judging, after a jump of the clock
    errors_count: int = 0
    error: str | None = None

    def is_live(self, now: float, interval: float) -> bool:
        """The loop turns and its cycles do not fail: a cycle ended within the last six."""
        return now - (self.last_ok_at if self.last_ok_at is not None else self.started_at) < patience_seconds(interval)


@dataclass(slots=True)
class Daemon:
    """All parts are given; this only turns the crank. `save`: writes what runs have taught, given the name."""

    runs: Sequence[WatchedRun]
    sources: Sequence[AnswerSource]
    desk: AlertDesk
    workers: Sequence[Worker]
    clock: Clock
    interval_seconds: float
    save: Callable[[Sequence[WatchedRun]], None]
    shared_logs: Sequence[LogReader] = ()
    recorder: Recorder | None = None
    dead_man: DeadManSwitch | None = None
    watchdog_alert: WatchdogAlert | None = None
    actor: Actor | None = None
    silences: Silences | None = None
    fleet: FleetWatch | None = None  # puts the runs that it finds into `runs`
    ledger: Ledger = field(default_factory=Ledger)
    config_hash: str = ""
    tls: ServerTls | None = None  # of its listener
    on_transitions: Callable[[Sequence[Transition]], None] = lambda transitions: None
    evaluator: Evaluator = field(default_factory=Evaluator)
    frames: dict[str, Frame] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    opened: Counter[tuple[str, str]] = field(default_factory=Counter)  # run, signature -> incidents since the start
    health: Health = field(init=False)
    _before: tuple[float, float] | None = None  # wall and monotonic clock of the last cycle
    _skipped: bool = False
    _failed: dict[str, str] = field(default_factory=dict)  # run -> what went wrong with it in this cycle
    _failed_before: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.health = Health(self.clock.time())

    async def tick(self) -> None:
        """One full cycle. Whatever fails in it is said and counted; the next cycle comes."""
        began, judged = self.clock.monotonic(), False
        try:
            judged = await self._cycle()
            self.health.error, self.health.last_ok_at = None, self.clock.time()
        except Exception as error:  # the loop must turn whatever a cycle meets
            self.health.errors_count += 1
            if self.health.error is None:
                log.exception("cycle failed")
            self.health.error = repr(error)[:300]
        self.health.last_tick_at = self.clock.time()
        self.health.tick_seconds = self.clock.monotonic() - began
        self.health.ticks_count += 1
        self._tell_outside(judged, self.clock.time())

    async def _cycle(self) -> bool:
        """False where it only looked, after a jump of the clock."""
        if self.fleet is not None:
            for name in await self.fleet.update(self.clock.time()):
                await asyncio.to_thread(self._drop, name)
        note = self.recorder.note if self.recorder is not None else None
        told = await asyncio.gather(*(source.ask_all(note) for source in self.sources), return_exceptions=True)
        broken = [one for one in told if isinstance(one, BaseException)]
        self.answers = merge(one for one in told if not isinstance(one, BaseException))
        if self.recorder is not None:
            await asyncio.to_thread(self.recorder.flush)
        self._failed_before, self._failed = self._failed, {}
        for run in self.runs:
            for node in run.fold.nodes:
                if node in self.answers:
                    with self._guarded(run.fold):
                        run.fold.observe(self.answers[node])
        readers = [*self.shared_logs, *(self.fleet.readers if self.fleet is not None else ())]
        reads = await asyncio.gather(*(logs.read() for logs in readers), return_exceptions=True)
        for logs, read in zip(readers, reads, strict=True):
            with self._guarded(logs.fold):
                if isinstance(read, BaseException):
                    raise read
                logs.fold.observe_log(self.clock.time(), *read)
        now = self.clock.time()
        if self._jumped(now) and not self._skipped:  # never twice: slow cycles must not end all judging
            self.health.skipped_count += 1
            self._skipped = True
            return False
        self._skipped = False
        judged = self._judge(now)
        facts = {name: facts_from_frame(frame) for name, frame in self.frames.items()}
        transitions = await asyncio.to_thread(self._decide, judged, facts, now)
        tell_open(self.runs, self.desk.incidents)
        self._count_opened(transitions)
        if self.actor is not None:
            self.actor.consider(self.desk.incidents, self._jobs(), now)
        self.on_transitions(transitions)
        if broken:  # said and counted, but the nodes of the other sources have been judged
            raise broken[0]
        return True

    @property
    def works(self) -> bool:
        """The last cycle did not fail and pages can go out: what a new start could mend. A full disk is none of it."""
        return self.health.error is None and all(worker.alive for worker in self.workers)

    def _jumped(self, now: float) -> bool:
        """A suspended machine, a stepped clock or a cycle that hung: what was read before says nothing about now."""
        tick = self.clock.monotonic()
        before, self._before = self._before, (now, tick)
        if before is None:
            return False
        wall, passed = now - before[0], tick - before[1]
        jumped = wall < -1.0 or max(wall, passed) > JUMP_POLLS * self.interval_seconds + 30 or abs(wall - passed) > 30
        if jumped:
            log.warning("clock jumped wall_seconds=%.0f monotonic_seconds=%.0f: looking again", wall, passed)
        return jumped

    def _judge(self, now: float) -> list[Judged]:
        judged = [lateness(self.health.tick_seconds, self.interval_seconds)]
        if self.actor is not None:
            judged += self.actor.judged(now)
        if self.fleet is not None:
            judged += self.fleet.judged()
        for run in self.runs:
            with self._guarded(run.fold):
                frame = run.fold.frame(now)
                self.frames[frame.run] = frame
                judged += self.evaluator.judge(frame, run.detectors)
        judged += [watching(run.fold.settings.name, self._failed.get(run.fold.settings.name)) for run in self.runs]
        return judged

    def _drop(self, run: str) -> None:
        """A found run whose last job ended long ago: nothing will be said of it any more."""
        self.frames.pop(run, None)
        for incident in [i for i in self.desk.incidents.values() if i.run == run and i.state != "resolved"]:
            self.desk.close(incident.key, "its last job ended long ago", "runwatch")

    def _jobs(self) -> dict[str, str]:
        """run -> id of its job, where a scheduler tells it."""
        told = {name: frame.scheduler.job_id for name, frame in self.frames.items() if frame.scheduler is not None}
        return {name: job for name, job in told.items() if job is not None}

    @contextmanager
    def _guarded(self, fold: RunFold) -> Iterator[None]:
        """What goes wrong with one run is said and stops no other."""
        name = fold.settings.name
        try:
            yield
        except Exception as error:  # whatever it is, the other runs go on
            if name not in self._failed and name not in self._failed_before:
                log.exception("watching failed run=%s", name)
            self._failed[name] = repr(error)[:300]

    def _decide(self, judged: Sequence[Judged], facts: dict[str, RunFacts], now: float) -> tuple[Transition, ...]:
        transitions = self.desk.evaluate(judged, facts, now)
        self.save(self.runs)
        return transitions

    def _count_opened(self, transitions: Sequence[Transition]) -> None:
        for incident in (t.incident for t in transitions if t.event == "opened"):
            if incident.run is not None and not incident.shadow:
                self.opened[incident.run, incident.signature] += 1

    def _trouble(self, now: float) -> str:
        """Why the last cycle was not a good one; empty where it was."""
        if self.health.error is not None:
            return f"cycles fail: {self.health.error}"
        if self._failed:
            return f"not fully watched: {', '.join(sorted(self._failed))}"
        if self.desk.store_error is not None:
            return self.desk.store_error
        if not all(worker.alive for worker in self.workers):
            return "a thread that sends pages has ended"
        if self.desk.outbox.nobody_hears(now):
            return "no channel takes pages"
        return ""

    def _tell_outside(self, judged: bool, now: float) -> None:
        """That all of it worked; or, once it has not for a while, that it does not."""
        good_at, tick = self.health.last_good_cycle_at, self.clock.monotonic()
        trouble = self._trouble(now)
        if judged and not trouble:
            self.health.last_good_cycle_at = now
            if self.dead_man is not None:
                self.dead_man.ping_when_due(now, tick)
            if self.watchdog_alert is not None:
                self.watchdog_alert.say_when_due(now, tick)
        elif trouble and self.dead_man is not None:
            since = good_at if good_at is not None else self.health.started_at
            if now - since > patience_seconds(self.interval_seconds):
                self.dead_man.fail_when_due(trouble, now, tick)
