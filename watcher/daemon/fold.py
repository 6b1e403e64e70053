"""Answers of agents and events of logs -> the frame of one run. Pure: state in, state out, `now` is an argument."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from detectors._ending import ending_of
from detectors._shape import busy_share, held_share, spins_now
from detectors.frame import Attempt, Frame, Learnt, LogSource, PowerBand, Scheduler
from detectors.telemetry import GpuRef, History, NodeView
from watcher.daemon.answer import Answer
from watcher.daemon.history import HistoryRing
from watcher.daemon.launches import Launches, no_job
from watcher.daemon.learning import SpinWhileStepping, power_band
from watcher.daemon.ledger import Ledger
from watcher.daemon.nodes import NodeFold
from watcher.daemon.own_logs import OwnLogs
from watcher.daemon.placement import Placement, places_of
from watcher.daemon.progress import RunProgress
from watcher.daemon.saved import dump_node, dump_progress, load_band, load_node, load_progress, load_scheduler
from watcher.daemon.strikes import Strikes
from watcher.events import LogEvent
from watcher.fleet._api import Job, Place
from watcher.fleet._group import Ended
from watcher.snapshot import LogLine, LogStatus, XidLine

RELEARN_SECONDS = 60.0
HELD_AGAIN = BUSY_SHARE = 0.5  # share of the GPUs
TAIL_LINES = 20
SEEN_FILES = 10_000
SCHEDULER_SECONDS = 600.0
UNSURE_SECONDS = 60.0  # what a node counts is seen a poll or two later


def _leading_word(message: str) -> str | None:
    """What may be a node's name in front of its line, as pdsh and many scripts write it: `gpu03: RuntimeError`."""
    word, colon, _ = message[:300].partition(": ")
    return word if colon and " " not in word else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What the config says of one run."""

    name: str
    nodes: tuple[str, ...] = ()
    interval_seconds: float = 10.0
    expected_gpus: int | None = None  # per node
    gpu_hour_price: float | None = None
    currency: str = "USD"
    expected_start_at: float | None = None
    logs_are_per_node: bool = False  # each node's log tells of that node only
    follows: bool = False  # a fleet source tells the nodes
    log_paths: tuple[str, ...] = ()  # of what agents follow only these are the run's, filled in for each job


class RunFold:
    """All that is known of one run. `ledger` is shared by all runs of a daemon."""

    def __init__(self, settings: RunSettings, ledger: Ledger | None = None) -> None:
        self.settings = settings
        self.ledger = ledger if ledger is not None else Ledger()
        self._strikes = Strikes(settings.name, self.ledger)
        self._placement = Placement(settings.nodes, settings.expected_gpus)
        self._scheduler: Scheduler | None = None
        self._scheduler_at = 0.0
        self._launches = Launches()
        self._own_logs = OwnLogs(settings.log_paths)
        self._progress = RunProgress(on_working=self._working)
        self._history = HistoryRing()
        self._band: PowerBand | None = None
        self._band_at = 0.0
        self._band_of: tuple[Any, ...] = ()
        self._band_since = 0.0
        self._spin = SpinWhileStepping()
        self._read_to: dict[str, int] = {}  # file -> byte offset up to which its events are known
        self._sources: dict[tuple[str | None, str], LogSource] = {}
        self._files: dict[tuple[str | None, str], str] = {}  # which file a path led to
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._busy_since: float | None = None
        self._let_go: int | None = None  # the attempt all of whose GPUs were seen free since its last step

    @property
    def nodes(self) -> dict[str, NodeFold]:
        """Those of the run at present."""
        return self._placement.nodes

    # -- what comes in -------------------------------------------------------------------------------------------

    def observe(self, answer: Answer) -> None:
        """An agent's answer or its failure."""
        node = self._placement.node(answer.node)
        if answer.snapshot is None:
            node.failed(answer.error or "no answer")
            return
        snapshot = self._placement.own(answer.node, answer.snapshot)
        for kind, gpu in node.answered(answer.received_at, snapshot):
            self._strikes.of_gpu(answer.received_at, answer.node, kind, gpu, self._attempt_at(answer.received_at))
        for event in snapshot.events:
            if isinstance(event, XidLine):
                attempt = self._attempt_at(answer.received_at - event.age_seconds)
                self._strikes.of_xid(answer.received_at, answer.node, event, snapshot.gpus, attempt)
        lines = [e for e in snapshot.events if isinstance(e, LogLine) and self._is_own(answer.received_at, e)]
        self._take_lines(answer.received_at, lines, answer.node)
        logs = [status for status in snapshot.logs if self._own_logs.has(status.path)]
        self._statuses(answer.received_at, logs, answer.node)

    def observe_log(self, now: float, lines: Sequence[LogLine], logs: Sequence[LogStatus] = ()) -> None:
        """Events of a log that the daemon reads itself."""
        self._take_lines(now, lines, None)
        self._statuses(now, logs, None)

    def observe_event(self, at: float, event: LogEvent, node: str | None = None) -> None:
        """One event from anywhere; `node`: whose own log said it."""
        attempt = self._progress.attempt.number
        self._progress.event(at, event, node)
        if event.event == "error":
            self._tie_error(node)
        self._note_end(attempt)

    def observe_scheduler(self, now: float, scheduler: Scheduler, ended: Iterable[Ended] = ()) -> None:
        """What the scheduler says of the run's jobs; `ended`: launches that are over, and how."""
        attempt = self._progress.attempt.number
        if scheduler.state == "none" and self._scheduler is not None:
            scheduler = no_job(self._scheduler)
        self._scheduler, self._scheduler_at = scheduler, now
        ended = [replace(one, node=self._node_of(one.node)) for one in ended]
        self._launches.observe(self._progress, now, scheduler, ended)
        self._note_end(attempt)

    def of_job(self, job: Job) -> None:
        """The job that runs now: which of the logs on its nodes are its own."""
        self._own_logs.of_job(job)

    def set_nodes(self, places: Sequence[Place], since_at: float | None = None) -> None:
        """The run's nodes from now on. `since_at`: when this launch got them, so that older lines are not its own."""
        self._placement.since_at = since_at
        if not self._placement.move(places):
            return
        self._history.keep(self.nodes)
        self._band, self._band_of = None, ()
        for known in (self._sources, self._files):
            for key in [key for key in known if key[0] is not None and key[0] not in self.nodes]:
                del known[key]

    def _note_end(self, attempt: int) -> None:
        """`attempt` was the present one; what ended it, where that is another now, may be a strike."""
        if self._progress.attempt.number != attempt and self._progress.past:
            past = self._progress.past[-1]
            self._strikes.of_end(past.cause, self.nodes.values(), past.number)

    def tell_open(self, families: Collection[str]) -> None:
        """What is open for this run now: the gap that a stall makes is not learnt as one of its own."""
        self._progress.stalled = "stall" in families

    def _is_own(self, now: float, line: LogLine) -> bool:
        """Of this run's logs, and written since this launch has the node."""
        return self._own_logs.has(line.path) and not self._placement.is_earlier(now - line.age_seconds)

    def _take_lines(self, now: float, lines: Sequence[LogLine], node: str | None) -> None:
        known = dict(self._read_to)
        for line in sorted(lines, key=lambda item: -item.age_seconds):
            if line.offset <= known.get(line.file, -1):
                continue  # another agent or an earlier answer told it
            self._read_to[line.file] = max(line.offset, self._read_to.get(line.file, -1))
            self.observe_event(now - line.age_seconds, line.event, node)
            if self._files.get((node, line.path), line.file) != line.file:
                self._progress.another_file(now)  # the end of a file that its path has left already
        while len(self._read_to) > SEEN_FILES:
            self._read_to.pop(next(iter(self._read_to)))

    def _statuses(self, now: float, logs: Iterable[LogStatus], node: str | None) -> None:
        for status in logs:
            last_at = None if status.last_line_age_seconds is None else now - status.last_line_age_seconds
            key = (node, status.path)
            before = self._files.get(key)
            if status.file is not None and status.lines:
                self._files[key] = status.file
                if before not in (None, status.file):
                    self._progress.another_file(last_at if last_at is not None else now)
            self._sources[key] = LogSource(
                path=status.path,
                node=node,
                format=status.format,
                steps=status.steps,
                lines=status.lines,
                last_line_at=last_at,
                error=status.error,
                hidden=status.hidden,
            )
            if last_at is not None and status.lines:
                newest = self._progress.last_line_at is None or last_at > self._progress.last_line_at
                if newest and status.tail:
                    self._tail = deque(status.tail, maxlen=TAIL_LINES)
                self._progress.line(last_at)

    def _tie_error(self, node: str | None) -> None:
        """The newest error, tied to a node of the run by its host name or by whose log it stands in."""
        errors = self._progress.attempt.errors
        if not errors:
            return
        error = errors[-1]
        place = self._node_of(error.host or _leading_word(error.message)) or (
            node if self.settings.logs_are_per_node else None
        )
        if place != error.node:
            error = replace(error, node=place)
            self._progress.attempt = replace(self._progress.attempt, errors=(*errors[:-1], error))
        self._strikes.of_text(error, self._progress.attempt.number)

    def _attempt_at(self, at: float) -> int | None:
        """The attempt in which a node was struck; None where it may be the end of one or the start of the next."""
        attempt = self._progress.attempt
        begun = attempt.started_at is not None and at - attempt.started_at >= UNSURE_SECONDS
        return attempt.number if begun or attempt.number == 1 else None

    def _node_of(self, host: str | None) -> str | None:
        if host is None:
            return None
        short = host.split(".")[0].lower()
        return next((name for name in self.nodes if name.split(".")[0].lower() == short), None)

    # -- what is seen --------------------------------------------------------------------------------------------

    def frame(self, now: float) -> Frame:
        """The run at `now`. Call once per evaluation: it appends a row of history."""
        interval = self.settings.interval_seconds
        views = tuple(node.view(now, interval) for node in self.nodes.values())
        self._history.append(now, ((view.name, view.gpus) for view in views))
        history = self._history.view()
        self._process_set(now, history)
        self._note_busy(now, history)
        progress = replace(self._progress.progress(self._busy_since), hidden=self._hidden(views))
        self._progress.unseen = progress.hidden is not None
        self._relearn(now)
        frame = Frame(
            now=now,
            run=self.settings.name,
            interval_seconds=interval,
            attempt=self._attempt(),
            past_attempts=tuple(self._progress.past),
            phase=self._progress.phase,
            progress=progress,
            learnt=self._learnt(),
            nodes=views,
            history=history,
            log_sources=tuple(self._sources.values()),
            log_tail=tuple(self._tail),
            strikes=self.ledger.of({*self.nodes, *self._progress.attempt.nodes}),
            scheduler=self._scheduler_now(now),
            last_checkpoint_at=self._progress.saves.completed_at,
            last_checkpoint_step=self._progress.saves.completed_step,
            save_started_at=self._progress.saves.started_at,
            gpu_hour_price=self.settings.gpu_hour_price,
            currency=self.settings.currency,
            expected_start_at=self.settings.expected_start_at,
        )
        self._spin.note(now, spins_now(frame), progress.last_step_at)
        ending = ending_of(frame)
        if ending is not None:  # stands in the next frame
            self._strikes.of_end(ending.cause, self.nodes.values(), self._progress.attempt.number)
        return frame

    def _hidden(self, views: Iterable[NodeView]) -> str | None:
        """Why new steps could not be seen, where all that tell of steps are out of sight and no node is down."""
        telling = [source for source in self._sources.values() if source.steps or source.hidden]
        deaf = {view.name for view in views if view.silent_polls.get("agent")}
        out = [source for source in telling if source.hidden or source.node in deaf]
        if not telling or len(out) < len(telling):
            return None
        return f"new steps cannot be seen: {out[0].error or f'the agent of {out[0].node} does not answer'}"[:200]

    def _note_busy(self, now: float, history: History) -> None:
        """Since when at least half of the GPUs are busy, without a break."""
        share = busy_share(history)
        if share is not None:
            self._busy_since = None if share < BUSY_SHARE else self._busy_since or now

    def _process_set(self, now: float, history: History) -> None:
        """Processes that hold the GPUs again after all had let go are a new launch, banner or not."""
        held = held_share(history)
        if held is None:
            return
        if held == 0.0:
            self._let_go = self._progress.attempt.number if self._progress.steps_seen else None
        elif held >= HELD_AGAIN and self._let_go is not None:
            if self._let_go == self._progress.attempt.number:  # else its launch has been told otherwise
                self._progress.new_launch(now)
            self._let_go = None

    def _attempt(self) -> Attempt:
        """The present attempt with its nodes, which it keeps when it is past."""
        nodes = tuple(self.nodes)
        if nodes and self._progress.attempt.nodes != nodes:
            self._progress.attempt = replace(self._progress.attempt, nodes=nodes)
        return self._progress.attempt

    def _scheduler_now(self, now: float) -> Scheduler | None:
        """What it said last counts for a while when it does not answer; then its state is unknown, never "no job"."""
        told = self._scheduler
        if told is None or now - self._scheduler_at <= SCHEDULER_SECONDS:
            return told
        return replace(told, state="unknown", reason="the scheduler does not answer", ends_by_at=None)

    def _learnt(self) -> Learnt:
        gaps = {name: stats for name, g in self._progress.gaps.items() if (stats := g.stats()) is not None}
        lengths = {name: stats for name, g in self._progress.durations.items() if (stats := g.stats()) is not None}
        return Learnt(
            gaps=gaps,
            durations=lengths,
            power=self._band,
            spin_while_stepping_seconds=self._spin.longest_seconds,
            save_interval=self._progress.saves.interval.stats(),
            saves_implied=not self._progress.saves.ends_told,
            save_length=self._progress.saves.length.stats(),
            origin=f"attempt {self._progress.attempt.number}",
        )

    def _working(self, since_at: float, until_at: float) -> None:
        self._history.mark_progressing(since_at, until_at)

    def _relearn(self, now: float) -> None:
        """The band belongs to a world and batch size; after a change it starts anew."""
        attempt = self._progress.attempt
        world = (attempt.world_size, attempt.batch_size, len(self._history.view().gpus))
        if world != self._band_of:
            self._band_of, self._band_since, self._band_at = world, now, 0.0
            self._band = None
        if now - self._band_at < (RELEARN_SECONDS if self._band is not None else 2 * self.settings.interval_seconds):
            return
        band = power_band(self._history.view(), self._band_since)
        if band is not None:
            self._band = band
        self._band_at = now

    # -- over restarts -------------------------------------------------------------------------------------------

    def dump(self) -> bytes:
        """What must outlive the daemon: attempt, step, gaps, working power, inventory."""
        return json.dumps(
            {
                "version": 1,
                "progress": dump_progress(self._progress),
                "band": asdict(self._band) if self._band is not None else None,
                "band_of": self._band_of,
                "gpus": [[ref.node, ref.uuid, ref.index, ref.name] for ref in self._history.view().gpus],
                "spin_seconds": self._spin.longest_seconds,
                "read_to": self._read_to,
                "nodes": {node.name: dump_node(node) for node in self.nodes.values()},
                "placement": self._placement.dump(),
                "launches": self._launches.dump(),
                "scheduler": None if self._scheduler is None else [self._scheduler_at, asdict(self._scheduler)],
            },
            separators=(",", ":"),
        ).encode()

    def load(self, data: bytes) -> None:
        """Take over what `dump` wrote. Raises ValueError where it cannot be read; the fold then is as it was."""
        try:
            state = json.loads(data)
            places, since_at = places_of(state["placement"]) if "placement" in state else ([], None)
            names = [place.node for place in places] if self.settings.follows else self.nodes
            launches = Launches.load(state["launches"]) if "launches" in state else Launches()
            told_at, scheduler = load_scheduler(state.get("scheduler"))
            progress = load_progress(state["progress"])
            band = load_band(state["band"])
            band_of = tuple(state["band_of"])
            gpus = [GpuRef(*raw) for raw in state["gpus"] if raw[0] in names]
            spin = SpinWhileStepping(float(state["spin_seconds"]))
            read_to = {str(file): int(offset) for file, offset in state["read_to"].items()}
            nodes = {name: load_node(name, raw) for name, raw in state["nodes"].items() if name in names}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"the saved state of run {self.settings.name} cannot be read: {error!r}") from error
        progress.on_working = self._working
        self._progress, self._band, self._band_of, self._spin = progress, band, band_of, spin
        self._read_to = read_to
        if self.settings.follows:
            self._placement.move(places)
            self._placement.since_at = since_at
            self._launches, self._scheduler, self._scheduler_at = launches, scheduler, told_at
        self._history.expect(gpus)
        for name, node in nodes.items():
            node.expected = self.nodes[name].expected
            self.nodes[name] = node
