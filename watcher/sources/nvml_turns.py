"""One GPU after the other, in a thread beside: one that hangs is left to itself and costs the others nothing.

As long as every GPU answers there is one query at a time. One that takes longer than `patience`, twice that at most,
keeps its thread, which ends with the call that it is in; the next GPUs are read by another. So there is at most one
open query a GPU. Where more than half of the GPUs hang it is the driver, and nothing is answered until one comes back:
our parent sees that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

Reading = dict[str, Any]


class Turn:
    """The work of one thread. `now`: the GPU it is at. `left`: it ends after the call that it is in."""

    def __init__(self, waiting: list[int]) -> None:
        self.waiting, self.done = waiting, dict[int, Reading | None]()
        self.now: int | None = None
        self.left = False
        self.lock = threading.Lock()
        self.over = threading.Event()

    def next(self) -> int | None:
        with self.lock:
            self.now = None if self.left or not self.waiting else self.waiting.pop(0)
            return self.now


class Turns:
    """`read(index, given_up)` reads one GPU, never raises, and asks `given_up()` between two calls."""

    def __init__(self, read: Callable[[int, Callable[[], bool]], Reading | None], patience: float) -> None:
        self._read, self._patience = read, patience
        self._held: dict[int, Turn] = {}
        self._slow: set[int] = set()

    @property
    def held(self) -> frozenset[int]:
        """GPUs that have not answered."""
        return frozenset(self._held)

    def take(self, indices: Iterable[int]) -> dict[int, Reading]:
        """The readings of those that answer. Those that were slow come last."""
        wanted = list(indices)
        self._held = {index: turn for index, turn in self._held.items() if not turn.over.is_set()}
        waiting = sorted((index for index in wanted if index not in self._held), key=self._slow.__contains__)
        out: dict[int, Reading] = {}
        while waiting:
            turn = Turn(waiting)
            threading.Thread(target=self._work, args=(turn,), daemon=True).start()
            waiting = self._wait(turn)
            self._slow.difference_update(turn.done)
            out.update((index, reading) for index, reading in turn.done.items() if reading is not None)
            while 2 * len(self._held) > len(wanted):
                turn.over.wait()
                self._held = {index: other for index, other in self._held.items() if not other.over.is_set()}
        return out

    def _wait(self, turn: Turn) -> list[int]:
        """Until the turn is over, or hangs; answers the GPUs that are left then."""
        before: int | None = None
        while not turn.over.wait(self._patience):
            with turn.lock:
                if turn.now is None or turn.now != before:
                    before = turn.now
                    continue
                turn.left = True
                self._held[turn.now] = turn
                self._slow.add(turn.now)
                return turn.waiting
        return []

    def _work(self, turn: Turn) -> None:
        while (index := turn.next()) is not None:
            reading = self._read(index, lambda: turn.left)
            if not turn.left:
                turn.done[index] = reading
        turn.over.set()
