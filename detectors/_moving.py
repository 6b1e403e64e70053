"""Does the run move? For signatures that are worse when it does not."""

from __future__ import annotations

from detectors.frame import Frame


def stands_still(frame: Frame, seconds: float) -> bool:
    """A run that made steps, is not over, and made no progress for this long (or three of its own longest gaps)."""
    progress, attempt = frame.progress, frame.attempt
    if attempt.stopped or attempt.end_marker_at is not None or progress.last_progress_at is None:
        return False
    gap = frame.learnt.gaps.get(frame.phase.name)
    patience = max(seconds, 3 * gap.longest_seconds if gap is not None else 0.0)
    return frame.now - progress.last_progress_at > patience
