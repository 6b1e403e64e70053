"""Has the attempt ended? Errors after the last progress, and processes that let go of their GPUs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from detectors._shape import HELD_RATIO, Shape, shape_of
from detectors.frame import Frame, RunError

LATE_LINE_SECONDS = 5.0  # an error may be read just before the last step line of another file
FREE_FOR_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Ending:
    """`gone`: GPUs that were held and are free now; `dark_nodes`: nodes on which all are; `all_gone`: no GPU held."""

    errors: tuple[RunError, ...]
    cause: RunError | None
    gone: int
    dark_nodes: tuple[str, ...]
    all_gone: bool
    since_at: float


def ending_of(frame: Frame) -> Ending | None:
    """None while nothing says that the attempt is over."""
    if frame.attempt.started_at is None:
        return None
    moved = frame.progress.last_progress_at or frame.attempt.started_at
    errors = tuple(e for e in frame.attempt.errors if e.at >= moved - LATE_LINE_SECONDS)
    shape = shape_of(frame, FREE_FOR_SECONDS)
    gone, dark = _released(frame, shape)
    all_gone = shape.memory_free and shape.rows >= 2
    # half an hour later the history no longer shows who held them; steps tell that somebody did
    left = frame.scheduler is not None and frame.scheduler.has_left  # whoever holds the GPUs now is another job
    long_gone = all_gone and shape.busy == 0 and frame.progress.last_step is not None and moved < frame.history.at[0]
    told = bool(errors) and (left or gone > 0 or shape.held_known == 0 or long_gone)
    silent_exit = all_gone and (gone > 0 or long_gone) and frame.progress.last_step is not None
    if not (told or silent_exit):
        return None
    ordered = sorted(errors, key=lambda e: e.at)
    cause = next((e for e in ordered if not e.cascade), ordered[0] if ordered else None)
    since = min((e.at for e in errors), default=_freed_at(frame) or moved)
    return Ending(errors, cause, gone, dark, all_gone, since)


def _released(frame: Frame, shape: Shape) -> tuple[int, tuple[str, ...]]:
    """GPUs held at some time since the attempt's progress and free now, and the nodes that hold none any more."""
    if not len(frame.history):
        return 0, ()
    with np.errstate(invalid="ignore"):
        was_held = (frame.history.memory_used_ratio > HELD_RATIO).any(axis=0)
    known_now = ~np.isnan(frame.history.memory_used_ratio[-2:]).all(axis=0)
    freed = was_held & known_now & ~shape.held_mask
    nodes = {ref.node for ref in frame.gpus}
    held_nodes = {ref.node for ref, held in zip(frame.gpus, shape.held_mask, strict=True) if held}
    freed_nodes = {ref.node for ref, is_free in zip(frame.gpus, freed, strict=True) if is_free}
    return int(freed.sum()), tuple(sorted((nodes - held_nodes) & freed_nodes))


def _freed_at(frame: Frame) -> float | None:
    """When the last GPU was let go, as far as the history tells."""
    with np.errstate(invalid="ignore"):
        rows = np.flatnonzero((frame.history.memory_used_ratio > HELD_RATIO).any(axis=1))
    return float(frame.history.at[rows[-1]]) if len(rows) else None
