"""A ring of events with sequence numbers. Reads never consume: two daemons may ask; a gap is told."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from watcher.snapshot import Event

KEPT = 5_000
KEPT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Page:
    """Events after what the asker has; `lost`: how many are gone between."""

    events: tuple[Event, ...]
    next_seq: int
    lost: int


class EventRing:
    """`stream` is new with every start of the agent, for the numbers start at 0 then. Times are monotonic seconds."""

    def __init__(self, kept: int = KEPT, kept_seconds: float = KEPT_SECONDS, stream: str | None = None) -> None:
        self.stream = stream or uuid.uuid4().hex[:12]
        self._kept_seconds = kept_seconds
        self._ring: deque[tuple[int, float, Callable[[int, float], Event]]] = deque(maxlen=kept)
        self.next_seq = 0

    def add(self, at: float, make: Callable[[int, float], Event]) -> None:
        """`make(seq, age_seconds)` builds the event when somebody asks, for its age is of that moment."""
        self._ring.append((self.next_seq, at, make))
        self.next_seq += 1

    def since(self, place: str | None, now: float) -> Page:
        """`place`: STREAM:SEQ as the last page gave it; of another stream, or nothing = all that is there."""
        self._forget(now)
        first = self._first_wanted(place)
        oldest = self._ring[0][0] if self._ring else self.next_seq
        wanted = max(first, oldest)
        items: Sequence[tuple[int, float, Callable[[int, float], Event]]] = [i for i in self._ring if i[0] >= wanted]
        events = tuple(make(seq, max(0.0, now - at)) for seq, at, make in items)
        return Page(events, self.next_seq, max(0, oldest - first) if place is not None else 0)

    def _first_wanted(self, place: str | None) -> int:
        stream, _, seq = (place or "").rpartition(":")
        if stream != self.stream or not seq.isdecimal() or len(seq) > 18:
            return 0
        return min(int(seq), self.next_seq)

    def _forget(self, now: float) -> None:
        while self._ring and now - self._ring[0][1] > self._kept_seconds:
            self._ring.popleft()
