"""Do lines arrive in lumps? A block-buffered pipe or a forwarding launcher prints many steps at once, then nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from detectors.frame import StepRecord

ENOUGH = 6  # arrivals
LUMP_SHARE = 0.5  # of the gaps are far below what their steps took
FAR_BELOW = 0.1
LUMP_SECONDS = 1.0
PAUSE_SECONDS = 60.0  # lumps closer than this do not matter to any limit


def burst_seconds(arrivals: Iterable[tuple[float, int]], records: Iterable[StepRecord]) -> float:
    """How far apart the lumps are, at least; 0 where lines come as they are written.

    `arrivals`: (unix seconds, step). The printed step time is the yardstick, else the mean time between steps.
    """
    seen: Sequence[tuple[float, int]] = list(arrivals)
    if len(seen) < ENOUGH:
        return 0.0
    pairs = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(seen) if b[1] > a[1]]
    if not pairs:
        return 0.0
    printed = sorted(r.step_seconds for r in records if r.step_seconds is not None and r.step_seconds_printed)
    mean = (seen[-1][0] - seen[0][0]) / sum(count for _, count in pairs)
    step_seconds = printed[len(printed) // 2] if printed else mean
    lumped, lump, longest_lump = 0, 0.0, 0.0
    for gap, count in pairs:
        took = step_seconds * count
        if gap < FAR_BELOW * took:
            lumped, lump = lumped + 1, lump + took
            longest_lump = max(longest_lump, lump)
        else:
            lump = 0.0
    pause = max(longest_lump, *(gap for gap, _ in pairs))
    return pause if pause >= PAUSE_SECONDS and lumped >= LUMP_SHARE * len(pairs) else 0.0


def is_one_lump(arrivals: Iterable[tuple[float, int]], steps_seen: int) -> bool:
    """All steps so far came at once: how far apart lumps are is not known yet."""
    seen = list(arrivals)
    return ENOUGH <= len(seen) == steps_seen and seen[-1][0] - seen[0][0] <= LUMP_SECONDS
