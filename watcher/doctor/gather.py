"""Asks the agents, reads the logs and the daemon's file, sends the test pages: all that the checks look at."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from alerts.notification import Sent
from alerts.trial import try_channel
from watcher.agent.follow import LogFollower
from watcher.clock import Clock
from watcher.config.alerting import build_channels
from watcher.config.daemon import DaemonConfig, RunSection
from watcher.config.detectors import settled
from watcher.config.notes import daemon_notes
from watcher.config.telemetry import build_progress
from watcher.daemon.answer import Answer, AnswerSource
from watcher.daemon.build import run_fold
from watcher.daemon.fold import RunFold
from watcher.daemon.ledger import Ledger
from watcher.daemon.merge import merge
from watcher.daemon.state_file import read_ledger, read_state
from watcher.daemon.store import StoreError
from watcher.doctor._api import LogFound, RunScene, Scene
from watcher.doctor._found import Found
from watcher.doctor.collectives import timeouts_in
from watcher.events import LogEvent

log = logging.getLogger(__name__)
MOST_POLLS = 20  # of a log, 32 MB each
HEAD_BYTES = 4 << 20  # programs print their arguments first


def gather(
    config: DaemonConfig,
    found: Sequence[Found],
    sources: Sequence[AnswerSource],
    clock: Clock,
    daemon: str | None,
    page: bool,
    say: Callable[[str], None],
) -> Scene:
    """`found`: the runs that there are. `daemon`: None where one answers, else why not. `say`: hears what goes on.

    Raises nothing for bad sites.
    """
    say("asking the agents")
    answers = asyncio.run(_ask(sources))
    strikes = _strikes(config.daemon.database)
    runs = []
    for one in found:
        say(f"reading the logs of {one.section.name}")
        runs.append(_run(config, one, answers, strikes, clock))
    pages = None
    if page:
        say("sending a test page through each channel")
        pages = _pages(config, clock)
    told = {answer.node: answer for answer in answers}
    return Scene(config, clock.time(), told, runs, daemon_notes(config), daemon, pages)


async def _ask(sources: Sequence[AnswerSource]) -> list[Answer]:
    async with AsyncExitStack() as stack:
        for source in sources:
            await stack.enter_async_context(source)
        told = await asyncio.gather(*(source.ask_all() for source in sources))
    return list(merge(told).values())


def _strikes(database: Path) -> Ledger:
    try:
        return Ledger.load(read_ledger(database)) if database.is_file() else Ledger()
    except (StoreError, OSError) as error:
        log.warning("%s", error)
        return Ledger()


def _run(config: DaemonConfig, found: Found, answers: Sequence[Answer], strikes: Ledger, clock: Clock) -> RunScene:
    section = found.section
    fold = run_fold(section, config, strikes, _saved(config.daemon.database, section.name))
    if found.sight is not None:
        fold.set_nodes(found.sight.places)
    for answer in answers:
        if answer.node in fold.nodes:
            fold.observe(answer)
    logs = [_of_agent(answer, fold) for answer in answers if answer.node in fold.nodes]
    told = [one for some in logs for one in some]
    told += [one for item in section.logs if item.tail == "daemon" for one in _read_here(item.path, section, clock)]
    told += _counters(section, fold, clock)
    return RunScene(found, fold.frame(clock.time()), settled(config.detectors, section.detectors)[0], told)


def _saved(database: Path, run: str) -> bytes | None:
    """What an earlier or running daemon has learnt of the run."""
    try:
        return read_state(database, f"run/{run}") if database.is_file() else None
    except (StoreError, OSError) as error:
        log.warning("%s", error)
        return None


def _of_agent(answer: Answer, fold: RunFold) -> list[LogFound]:
    """The logs that one agent follows, and what its ring of the last minutes holds of them."""
    snapshot = answer.snapshot
    if snapshot is None:
        return []
    out = {
        status.path: LogFound(
            status.path, answer.node, status.format, status.lines, status.steps, status.last_line_age_seconds,
            status.error,
        )
        for status in snapshot.logs
    }  # fmt: skip
    for line in snapshot.events:
        if line.kind == "log" and line.path in out:
            _note(out[line.path], line.event)
    return list(out.values())


def _read_here(path: str, section: RunSection, clock: Clock) -> list[LogFound]:
    """As the daemon would begin to read it."""
    follower = LogFollower([item for item in section.logs if item.path == path], "daemon", None, clock)
    events: dict[str, LogFound] = {}
    for _ in range(MOST_POLLS):
        got = follower.poll()
        for event in got:
            _note(events.setdefault(event.path, LogFound(event.path)), event.event)
        if not got:
            break
    found = []
    for status in follower.statuses(clock.time()):
        one = events.get(status.path, LogFound(status.path))
        one.format, one.lines, one.steps, one.error = status.format, status.lines, status.steps, status.error
        one.last_line_age_seconds = status.last_line_age_seconds
        one.timeouts_seconds = _timeouts(Path(status.path))
        found.append(one)
    return found


def _counters(section: RunSection, fold: RunFold, clock: Clock) -> list[LogFound]:
    """One look at the metrics that tell of steps."""
    if section.progress is None:
        return []

    async def look() -> list[LogFound]:
        assert section.progress is not None
        async with build_progress(section.progress, fold, clock) as reader:
            lines, statuses = await reader.read()
        found = [LogFound(s.path, None, s.format, s.lines, s.steps, s.last_line_age_seconds, s.error) for s in statuses]
        for line in lines:
            _note(found[0], line.event)
        return found

    return asyncio.run(look())


def _note(found: LogFound, event: LogEvent) -> None:
    if event.event == "phase" and event.edge == "start" and event.phase is not None:
        found.phases[event.phase] += 1
    elif event.event == "step":
        found.last_step = event


def _timeouts(path: Path) -> list[float]:
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    return [seconds for line in head.splitlines() for seconds in timeouts_in(line)][:20]


def _pages(config: DaemonConfig, clock: Clock) -> dict[str, str | None]:
    out: dict[str, str | None] = {}
    for name, channel in build_channels(config.channels).items():
        outcome = try_channel(name, channel, clock.time())
        out[name] = None if isinstance(outcome, Sent) else outcome.error
    return out
