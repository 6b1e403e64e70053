"""Follows all configured logs: bounded work in each poll, shared fairly, positions kept over restarts.

Everything here is blocking file I/O, and a file system may hang: `poll` belongs in a thread of its own, with a
deadline at the caller. `statuses` only reads memory and may be called from anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from watcher.agent.begin import Beginning
from watcher.agent.followed import SLICE_BYTES, FollowedEvent
from watcher.agent.paths import is_pattern, matches, patterns_for
from watcher.agent.positions import Positions
from watcher.agent.source import Source
from watcher.agent.tally import Tally
from watcher.clock import Clock
from watcher.config.logs import LogConfig
from watcher.snapshot import LogStatus

POLL_BYTES = 32 << 20  # over all files
POLL_SECONDS = 2.0
POLL_EVENTS = 5_000
MAX_FILES = 256
LOOK_AGAIN_SECONDS = 10.0  # between two scans of the wildcards


class LogFollower:
    """`state_path`: the file that keeps the positions; None keeps them in memory only."""

    def __init__(self, logs: Sequence[LogConfig], node: str, state_path: Path | None, clock: Clock) -> None:
        self._logs = [(config, patterns_for(config.path, node)) for config in logs]
        self._node, self._clock = node, clock
        self._positions = Positions(state_path)
        self.tally = Tally()
        self._sources: dict[str, Source] = {}
        self._unmatched: dict[str, str] = {}  # configured path -> why nothing of it is followed
        self._scan_at = float("-inf")
        self._turn = 0
        self._described: tuple[tuple[LogStatus, float | None], ...] = ()
        self._changed = self._old = False

    def follow(self, logs: Sequence[LogConfig], *, existed: bool) -> None:
        """Other logs from the next poll on; what stays keeps its place. May be called from another thread.

        existed: new ones have been written for a while, so that their old lines are history and not news.
        """
        self._logs = [(config, patterns_for(config.path, self._node)) for config in logs]
        self._changed, self._old = True, existed

    def poll(self) -> list[FollowedEvent]:
        """The events of all lines that ended since the last poll, at most POLL_BYTES and POLL_SECONDS of them.

        Events of a poll count as taken when the next one begins: only then is their position saved.
        """
        self._positions.save()
        now, monotonic = self._clock.time(), self._clock.monotonic()
        if self._changed or monotonic - self._scan_at >= LOOK_AGAIN_SECONDS:
            first = self._scan_at == float("-inf") or self._old
            self._changed = self._old = False
            self._scan(first=first)
            self._scan_at = monotonic
        sources = list(self._sources.values())
        for source in sources:
            source.look(monotonic, sources)
        events = self._read(sources, now, monotonic)
        for source in sources:
            events += source.tidy(now, monotonic)
        self._described = tuple(source.describe() for source in self._sources.values())
        return events

    def statuses(self, now: float) -> tuple[LogStatus, ...]:
        """What is followed, with its last lines; what is not, with the reason. `now`: unix seconds."""
        unmatched = [LogStatus(path=path, error=reason) for path, reason in self._unmatched.items()]
        followed = [
            status.model_copy(update={"last_line_age_seconds": max(0.0, now - at)}) if at is not None else status
            for status, at in self._described
        ]
        return (*unmatched, *followed)

    @property
    def problem(self) -> str | None:
        """Why positions cannot be saved, where that is so: a restart would then start near the ends of the logs."""
        return self._positions.error

    def close(self) -> None:
        """Saves the positions: everything polled so far counts as taken."""
        for source in self._sources.values():
            source.close()
        self._positions.save()

    def _scan(self, *, first: bool) -> None:
        """Which files there are: new ones are taken up, at most MAX_FILES, the last changed first."""
        unmatched = {}
        logs = self._logs
        wanted = {config.path for config, _ in logs}
        for path in [path for path, source in self._sources.items() if source.config.path not in wanted]:
            self._sources.pop(path).close()
        for config, patterns in logs:
            found = matches(patterns)
            if not found:
                unmatched[config.path] = "waiting: no file matches yet"
            existed = first and not self._positions.was_followed(config.path)
            for count, path in enumerate(found):
                if path in self._sources:
                    continue
                if len(self._sources) >= MAX_FILES and not self._make_room():
                    unmatched[config.path] = f"{len(found) - count} files too many: at most {MAX_FILES} are followed"
                    break
                beginning = Beginning(path, config, self._node, self._positions, self.tally)
                self._sources[path] = Source(beginning, existed=existed)
        self._unmatched = unmatched
        self._positions.follow(wanted)

    def _make_room(self) -> bool:
        """Gives up a path of a wildcard that is gone or has been idle for long."""
        for path, source in self._sources.items():
            if source.is_idle() and is_pattern(source.config.path):
                del self._sources[path]
                return True
        return False

    def _read(self, sources: list[Source], now: float, monotonic: float) -> list[FollowedEvent]:
        """Slice by slice in turns, so that one flood leaves room for the others; who is first changes every time."""
        events: list[FollowedEvent] = []
        self._turn += 1
        shift = self._turn % len(sources) if sources else 0
        waiting = sources[shift:] + sources[:shift]
        slices = POLL_BYTES // SLICE_BYTES
        while waiting:
            still = []
            for source in waiting:
                spent = slices <= 0 or len(events) >= POLL_EVENTS
                if spent or self._clock.monotonic() - monotonic > POLL_SECONDS:
                    return events
                slices -= 1
                events += source.read(now, monotonic)
                if not source.at_end():
                    still.append(source)
            waiting = still
        return events
