"""When to try again: exponential back-off with jitter, and a circuit that half-opens by itself. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The n-th wait is `first_seconds * 2 ** (n - 1)`, at most `cap_seconds`, spread by +-25 %."""

    first_seconds: float = 15.0
    cap_seconds: float = 300.0
    longest_wish_seconds: float = 3600.0  # of the other side's Retry-After

    def wait(self, attempts: int, jitter: float, wish: float | None = None) -> float:
        """`jitter` is uniform in 0..1; `wish` is what the other side asked for and only ever lengthens the wait."""
        own = min(self.cap_seconds, self.first_seconds * 2.0 ** min(30, max(0, attempts - 1))) * (0.75 + jitter / 2)
        return own if wish is None else max(own, min(wish, self.longest_wish_seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """Open after `threshold` failures running: then one message at a time probes the channel after each wait."""

    failures: int = 0
    not_before: float = 0.0
    threshold: int = 3

    @property
    def open(self) -> bool:
        return self.failures >= self.threshold

    def failed(self, now: float, backoff: Backoff, jitter: float, wish: float | None) -> Circuit:
        failures = self.failures + 1
        not_before = now + (min(wish, backoff.longest_wish_seconds) if wish is not None else 0.0)
        if failures >= self.threshold:
            not_before = now + backoff.wait(failures, jitter, wish)
        return replace(self, failures=failures, not_before=not_before)

    def worked(self, now: float) -> Circuit:
        return replace(self, failures=0, not_before=now)
