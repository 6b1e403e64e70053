"""How often a wrong token may be tried from one address. Pure: `now` is an argument."""

from __future__ import annotations

from collections import deque

TRIES = 10
WINDOW_SECONDS = 300.0
MAX_ADDRESSES = 1_000


class Attempts:
    """Bounded: the addresses that failed longest ago are forgotten first."""

    def __init__(self) -> None:
        self._failed: dict[str, deque[float]] = {}

    def wait_seconds(self, address: str, now: float) -> float:
        """How long this address has to wait; 0 = it may try."""
        failed = self._failed.get(address)
        if failed is None or len(failed) < TRIES:
            return 0.0
        return max(0.0, failed[0] + WINDOW_SECONDS - now)

    def failed(self, address: str, now: float) -> None:
        failed = self._failed.pop(address, None) or deque(maxlen=TRIES)
        failed.append(now)
        self._failed[address] = failed
        while len(self._failed) > MAX_ADDRESSES:
            self._failed.pop(next(iter(self._failed)))

    def succeeded(self, address: str) -> None:
        self._failed.pop(address, None)
