"""One followed file: the lines of a tail, read by a log reader, become events that say where they stood."""

from __future__ import annotations

import codecs
from collections import deque
from dataclasses import dataclass, replace

from watcher.agent.events import KEPT_SECONDS
from watcher.agent.lines import Piece
from watcher.agent.positions import Position
from watcher.agent.recent import RecentLines
from watcher.agent.tail import Tail
from watcher.config.logs import LogConfig
from watcher.events import LogEvent
from watcher.formats._reader import LogReader
from watcher.formats._user import UserReader

SLICE_BYTES = 262_144
QUIET_SECONDS = 10.0  # without a byte, after which an unfinished line or record is taken as it stands
PRIME_BYTES = 65_536  # read again when a file is taken up after a restart
_KNOWN_STARTS = 256  # lines back that an event may point to


@dataclass(frozen=True, slots=True)
class FollowedEvent:
    """An event of a log with its place: (`file`, `offset`) is the same for everyone who reads this file.

    offset: byte offset of the line (or of the redrawn part of it) that the event is about; a line can hold several
    events. at: unix seconds when it was read, never later than the file's last change where it was there before.
    first: it stood in the file before following began, so it says how things are, not that something happened now.
    again: told before a restart too, but perhaps fetched by nobody; who has it knows it by its place.
    """

    path: str
    file: str
    offset: int
    at: float
    event: LogEvent
    first: bool
    again: bool = False


class FollowedFile:
    """State of one file in one life. `first_until`: offset up to which it was there before following began."""

    def __init__(self, tail: Tail, config: LogConfig, host: str | None, first_until: int = 0) -> None:
        self.tail, self._config, self._host = tail, config, host
        self._first_until = first_until
        self._changed_at = tail.stat().st_mtime  # before it was followed
        self.steps = 0
        self.last_line_at: float | None = None
        self.last_growth = 0.0  # monotonic
        self.at_end = False
        self._settled = True
        self._again: list[FollowedEvent] = []
        self._begin()

    def _begin(self) -> None:
        user = UserReader(self._config.patterns) if self._config.patterns is not None else None
        self._reader = LogReader(only=self._config.format, user=user)
        self._starts: deque[int] = deque(maxlen=_KNOWN_STARTS)
        self._told: set[tuple[int, str | None]] = set()  # what a fragment said already
        self.recent = RecentLines()

    @property
    def format(self) -> str | None:
        return self._reader.format

    def is_file(self, device: int, inode: int) -> bool:
        return (self.tail.device, self.tail.inode) == (device, inode)

    @property
    def position(self) -> Position:
        return replace(self.tail.position, settled=self._settled)

    def take_over(self, earlier: FollowedFile) -> None:
        """Counts on from where the same file was closed."""
        self.steps, self.last_line_at = earlier.steps, earlier.last_line_at

    def prime(self, known: Position, *, again: bool) -> None:
        """Learns the format, and what the last lines were in the middle of. `again`: they are told once more."""
        lines = self.tail.read_before(PRIME_BYTES)
        events = self._understand(lines, self._changed_at) if lines is not None else []
        if known.settled:
            events += self._ended(self._changed_at)
        if again:
            self._again = [replace(event, again=True) for event in events if event.offset <= known.offset]

    def check(self) -> bool:
        """Starts over where the file was rewritten; answers whether it was."""
        if not self.tail.was_rewritten():
            return False
        self.tail.begin_anew()
        self._first_until = 0
        self._begin()
        return True

    def read(self, now: float, monotonic: float) -> list[FollowedEvent]:
        """The events of the next SLICE_BYTES; sets `at_end` where there are none."""
        again, self._again = self._again, []
        if now - self._changed_at > KEPT_SECONDS:  # as long as the ring would have held them
            again = []
        pieces = self.tail.read(SLICE_BYTES)
        self.at_end = pieces is None
        if pieces is None:
            return again
        self.last_growth, self._settled = monotonic, False
        return again + self._counted([event for piece in pieces for event in self._understand(piece, now)])

    def settle(self, now: float, monotonic: float) -> list[FollowedEvent]:
        """After QUIET_SECONDS without a byte: an unfinished line, a record that waits for more."""
        if self._settled or not self.at_end or monotonic - self.last_growth < QUIET_SECONDS:
            return []
        self._settled = True
        return self.finish(now)

    def finish(self, now: float) -> list[FollowedEvent]:
        """As if the file ended here; the reader can go on after it."""
        events = [event for piece in self.tail.settle() for event in self._understand(piece, now)]
        return self._counted(events + self._ended(now))

    def _ended(self, now: float) -> list[FollowedEvent]:
        """What the reader has gathered and not told."""
        offset, number = self.tail.position.offset, self.tail.line_count
        return [self._placed(event, offset, number, now) for event in self._reader.flush()]

    def _counted(self, events: list[FollowedEvent]) -> list[FollowedEvent]:
        self.steps += sum(event.event.event == "step" for event in events)
        return events

    def _understand(self, piece: Piece, now: float) -> list[FollowedEvent]:
        if piece.offset >= self._first_until:
            self.last_line_at = now
        else:
            self.last_line_at = min(now, self._changed_at)
        if piece.kind == "lines":
            self._starts.extend(_line_starts(piece)[-_KNOWN_STARTS:])
            self.recent.add_lines(piece.data)
            found = self._reader.feed_block(self._utf8(piece.data), piece.number)
            last = piece.number + piece.data.count(b"\n") - 1
            events = [self._placed(event, piece.offset, last, now) for event in found]
            events = [e for e in events if (e.offset, e.event.kind) not in self._told]
            self._told.clear()
            return events
        text = self._utf8(piece.data).decode("utf-8", "replace")
        self.recent.redraw(piece.data)
        found = self._reader.feed_part(text, piece.number)
        events = [self._placed(event, piece.offset, piece.number - 1, now) for event in found]
        if piece.kind == "fragment":  # it may be cut within a number: only what ends a run is believed
            events = [e for e in events if e.event.event == "error" or e.event.phase == "finished"]
            events = [e for e in events if (e.offset, e.event.kind) not in self._told]
            self._told.update((e.offset, e.event.kind) for e in events)
        return events

    def _placed(self, event: LogEvent, offset: int, last: int, now: float) -> FollowedEvent:
        """`last`: the line whose start stands last in `_starts`. `offset` serves an event whose line is not there."""
        back = last - event.line
        if 0 <= back < len(self._starts):
            offset = self._starts[-1 - back]
        first = offset < self._first_until
        if event.host is None and self._host is not None:
            event = replace(event, host=self._host)
        at = self.last_line_at if first and self.last_line_at is not None else now
        return FollowedEvent(self.tail.path, self.tail.name, offset, at, event, first)

    def _utf8(self, data: bytes) -> bytes:
        if codecs.lookup(self._config.encoding).name == "utf-8":
            return data
        return data.decode(self._config.encoding, "replace").encode()


def _line_starts(piece: Piece) -> list[int]:
    ends: list[int] = []  # the last one first
    end = len(piece.data)
    while len(ends) <= _KNOWN_STARTS and (end := piece.data.rfind(b"\n", 0, end)) >= 0:
        ends.append(end)
    starts = [piece.offset + end + 1 for end in reversed(ends[1:])]
    return starts if len(starts) == _KNOWN_STARTS else [piece.offset, *starts]
