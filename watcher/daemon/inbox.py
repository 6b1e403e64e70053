"""What one node has pushed: its last snapshot, and the events that no cycle has had yet, each once. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from watcher.daemon.aged import aged, aged_events
from watcher.snapshot import MAX_EVENTS, Event, Snapshot

MAX_DIGITS = 18  # of a number in the ring
KEPT = 32  # pushes between two cycles; then the node is asked to wait, its own ring keeps the events


@dataclass(slots=True)
class Inbox:
    """Times are monotonic seconds; `came_at`: the last push, or since when one is expected. `stream`, `next_seq`: up to
    where the events are here."""

    stream: str | None = None
    next_seq: int = 0
    latest: Snapshot | None = None
    came_at: float = 0.0
    pushes: int = 0  # since the last cycle
    _events: list[tuple[float, Event]] = field(default_factory=list)
    _lost: int = 0
    _rejected: list[str] = field(default_factory=list)

    @property
    def place(self) -> str | None:
        return f"{self.stream}:{self.next_seq}" if self.stream is not None else None

    @property
    def is_full(self) -> bool:
        return self.pushes >= KEPT or len(self._events) >= MAX_EVENTS

    def follows(self, since: str | None) -> bool:
        """Whether nothing is missing between what is here and events from `since` on."""
        if since is None:
            return True
        stream, _, seq = since.rpartition(":")
        number = seq.isascii() and seq.isdigit() and len(seq) <= MAX_DIGITS
        return stream == self.stream and number and int(seq) <= self.next_seq

    def take(self, snapshot: Snapshot, at: float) -> None:
        """Events that are here already are dropped: an answer that got lost makes the node send them again."""
        lost = snapshot.lost_events
        if snapshot.stream == self.stream:
            first = snapshot.events[0].seq if snapshot.events else snapshot.next_seq
            lost = max(0, min(lost, first - self.next_seq))
            new = [event for event in snapshot.events if event.seq >= self.next_seq]
            self.next_seq = max(self.next_seq, snapshot.next_seq)
        else:
            new = list(snapshot.events)
            self.stream, self.next_seq = snapshot.stream, snapshot.next_seq
        self._events += [(at, event) for event in new]
        self._lost += lost
        self._rejected += snapshot.rejected
        self.latest, self.came_at = snapshot, at
        self.pushes += 1

    def told(self, now: float) -> Snapshot | None:
        """As an agent would answer now. The events are told once."""
        if self.latest is None:
            return None
        events = [e for at, event in self._events for e in aged_events((event,), now - at)]
        whole = aged(self.latest, now - self.came_at).model_copy(
            update={
                "events": tuple(events),
                "lost_events": self._lost,
                "rejected": tuple(self._rejected[-100:]),
            }
        )
        self._events, self._lost, self._rejected, self.pushes = [], 0, [], 0
        return whole
