"""Do lines arrive in lumps? A block-buffered pipe or a forwarding launcher prints many steps at once, then nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from detectors.frame import StepRecord

ENOUGH = 6  # arrivals
LUMP_SHARE = 0.5  # of the gaps are far below what their steps took
FAR_BELOW = 0.1
PAUSE_SECONDS = 60.0  # lumps closer than this do not matter to any limit


def is_bursty(arrivals: Iterable[tuple[float, int]], records: Iterable[StepRecord]) -> bool:
    """`arrivals`: (unix seconds, step). The printed step time is the yardstick, else the mean time between steps."""
    seen: Sequence[tuple[float, int]] = list(arrivals)
    if len(seen) < ENOUGH:
        return False
    pairs = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(seen) if b[1] > a[1]]
    if not pairs or max(gap for gap, _ in pairs) < PAUSE_SECONDS:
        return False
    steps = sum(count for _, count in pairs)
    mean = (seen[-1][0] - seen[0][0]) / max(1, steps)
    printed = [r.step_seconds for r in records if r.step_seconds is not None]
    step_seconds = min(mean, sorted(printed)[len(printed) // 2]) if printed else mean
    lumped = sum(gap < FAR_BELOW * step_seconds * count for gap, count in pairs)
    return lumped >= LUMP_SHARE * len(pairs)
