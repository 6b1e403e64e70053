"""One stall, seen with more or less evidence: which member of the family it is, how long, and what goes on the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from detectors._cause import causes_of
from detectors._differs import Differs, who_differs
from detectors._ending import ending_of
from detectors._hosts import hosts_quiet
from detectors._limits import AgreeingLimits, Limit, SingleLimits, agreeing_limit, learnt_gap, single_limit
from detectors._links import troubled_links
from detectors._shape import Shape, low_threshold, shape_of
from detectors.frame import Frame
from detectors.verdict import CLEAR, Clear, Finding, Severity, Stage, Subject, Unknown

FAMILY = "stall"
PRECISION = {
    "log_silent": 0, "busy_stall": 1, "idle_stall": 2, "startup_stall": 2, "teardown_stall": 2, "low_power_deadlock": 3,
}  # fmt: skip
Kind = Literal["low_power_deadlock", "busy_stall", "idle_stall", "log_silent"]
SHOWN_GPUS = 64
QUIET_SECONDS = 60.0
MOVING_SECONDS = 60.0  # progress younger than this, or than one learnt gap, is progress now
IN_BAND_RATIO = 0.12  # around the learnt median, or three spreads
ALIVE_OF_SPREAD = 0.25  # power that moves at least this share of the working spread is no endless kernel


@dataclass(frozen=True, slots=True)
class Stall:
    kind: Kind
    stage: Stage
    seconds: float  # without progress
    limit: Limit
    shape: Shape


def assess(frame: Frame, single: SingleLimits, agreeing: AgreeingLimits) -> Stall | Clear | Unknown:
    """A run between its first step and its end; start-up and tear-down have signatures of their own."""
    progress = frame.progress
    if not progress.source or progress.last_progress_at is None:
        return Unknown("no step of this run has been read yet")
    if progress.hidden is not None:
        return Unknown(progress.hidden)
    if frame.attempt.stopped or frame.phase.name == "finished":
        return CLEAR
    if progress.first_step_at is None:
        return Unknown(f"attempt {frame.attempt.number} has not made a step yet")
    seconds = frame.now - progress.last_progress_at
    shape = shape_of(frame)
    limit = single_limit(frame, single)
    if shape.idle and hosts_quiet(frame, QUIET_SECONDS):
        agreed = agreeing_limit(frame, agreeing)
        limit = Limit(min(limit.seconds, agreed.seconds), f"the hosts do nothing either; {agreed.origin}")
    if ending_of(frame) is not None:
        return Unknown("the attempt has ended")
    gap = learnt_gap(frame)
    if shape.rows >= 3 and shape.spinning:
        agreed = agreeing_limit(frame, agreeing)
        waited = seconds
        if progress.bursty:
            longest = frame.learnt.spin_while_stepping_seconds
            agreed = Limit(
                max(agreeing.bursty_seconds, agreeing.gap_times * longest),
                f"lines come in bursts: counted from the low power on, longest such stretch {longest:.0f} s",
            )
            waited = min(seconds, frame.now - spin_since(frame))
        if waited > min(agreed.seconds, max(limit.seconds, agreed.seconds)):
            return Stall("low_power_deadlock", "open", seconds, agreed, shape)
        if waited >= max(MOVING_SECONDS, gap.longest_seconds if gap is not None else 0.0):
            return Stall("low_power_deadlock", "suspect", seconds, agreed, shape)
    if seconds <= max(MOVING_SECONDS, gap.longest_seconds if gap is not None else 0.0):
        return CLEAR
    if seconds <= limit.seconds:
        return Unknown(f"no progress for {seconds:.0f} s: too long to be sure that it moves, too short to page")
    if shape.idle:
        kind: Kind = "idle_stall"
    elif works_in_band(frame, shape) and (progress.bursty or no_lines(frame, limit)):
        kind = "log_silent"
    else:
        kind = "busy_stall"
    return Stall(kind, "open", seconds, limit, shape)


def no_lines(frame: Frame, limit: Limit) -> bool:
    """Not a line of any kind within the limit: the log may be late, not the run."""
    last = frame.progress.last_line_at
    return last is None or frame.now - last > limit.seconds


def works_in_band(frame: Frame, shape: Shape) -> bool:
    """Most GPUs draw what they draw at work, and it moves as it does at work."""
    band = frame.learnt.power
    if band is None or len(band.median_watts) != shape.gpus or not shape.power_known:
        return False
    power = frame.history.power_watts[frame.history.rows_since(frame.now - 300.0)].astype(np.float64)
    middle = np.asarray(band.median_watts)
    with np.errstate(invalid="ignore"):
        near = np.abs(np.nanmedian(power, axis=0) - middle) <= np.fmax(
            IN_BAND_RATIO * middle, 3 * np.asarray(band.spread_watts)
        )
        moving = 1.4826 * np.nanmedian(np.abs(power - np.nanmedian(power, axis=0)), axis=0)
        alive = moving >= ALIVE_OF_SPREAD * np.asarray(band.spread_watts)
    return bool((near & alive).sum() >= 0.8 * shape.power_known)


def spin_since(frame: Frame) -> float:
    """Start of the stretch of low power at full utilization that reaches to `now`; bounded by the history."""
    history = frame.history
    threshold, _ = low_threshold(frame)
    with np.errstate(invalid="ignore"):
        busy = history.utilization_ratio >= 0.9
        known = (~np.isnan(history.utilization_ratio)).sum(axis=1)
        low = busy & (history.power_watts < threshold)
    spins = (busy.sum(axis=1) * 2 >= known) & (low.sum(axis=1) >= 0.8 * busy.sum(axis=1)) & (known > 0)
    other = np.flatnonzero(~spins & (known > 0))
    first = other[-1] + 1 if len(other) else 0
    return float(history.at[first]) if first < len(history) else frame.now


def finding(frame: Frame, stall: Stall, severity: Severity, title: str, hint: str) -> Finding:
    """`title`: what is seen, without a cause: a livelocked kernel looks like a hung collective."""
    differs = who_differs(frame, stall.shape)
    stopped_at = frame.progress.last_progress_at
    causes = causes_of(frame, stopped_at) if stopped_at is not None else ()
    told = summary(frame, stall.seconds, title, differs)
    if causes:
        told = f"{told}; it began when {causes[0].text}"
    if links := troubled_links(frame, 1):
        told = f"{told}; {links[0]}"
    return Finding(
        signature=stall.kind,
        subject=Subject(run=frame.run),
        severity=severity,
        summary=told,
        explained_by=tuple(cause.key for cause in causes[:4]),
        stage=stall.stage,
        family=FAMILY,
        precision=PRECISION[stall.kind],
        evidence=evidence(frame, stall.shape, stall.seconds, stall.limit, differs),
        hint=hint,
        since_at=frame.progress.last_progress_at,
    )


def summary(frame: Frame, seconds: float, title: str, differs: Differs) -> str:
    last = frame.progress.last_step
    where = f"last step {last}" if last is not None else "no step yet"
    if last is not None and frame.progress.total_steps is not None:
        where += f" of {frame.progress.total_steps}"
    phase = "" if frame.phase.name == "training" else f", in {frame.phase.name}"
    return f"{title}; no progress for {duration(seconds)} ({where}{phase}); {differs.text}"


def evidence(frame: Frame, shape: Shape, seconds: float, limit: Limit, differs: Differs) -> dict[str, Any]:
    """Numbers with their unit in the key; `gpus` holds at most 64 rows."""
    progress = frame.progress
    out: dict[str, Any] = {
        "phase": frame.phase.name,
        "attempt": frame.attempt.number,
        "last_step": progress.last_step,
        "total_steps": progress.total_steps,
        "last_progress_at": progress.last_progress_at,
        "no_progress_seconds": round(seconds, 1),
        "limit_seconds": round(limit.seconds, 1),
        "limit_origin": limit.origin,
        "gpus_total": shape.gpus,
        "gpus_busy": shape.busy,
        "gpus_low_power": shape.low,
        "gpus_power_known": shape.power_known,
        "who_differs": list(differs.names) or "no one differs",
        "power": power_text(frame, shape),
        "gpus": gpu_rows(frame, shape),
        "links": list(troubled_links(frame)) or None,
        "log_tail": list(frame.log_tail),
    }
    if differs.node is not None:
        out["odd"] = {"node": differs.node, "gpu": differs.gpu, "gpu_index": differs.gpu_index}
    out.update(cost(frame, seconds, shape.gpus))
    if frame.last_checkpoint_step is not None and progress.last_step is not None:
        out["steps_since_checkpoint"] = progress.last_step - frame.last_checkpoint_step
    return {key: value for key, value in out.items() if value is not None}


def power_text(frame: Frame, shape: Shape) -> str:
    """ "16 of 16 GPUs at or below 22 % of their power limit (84-87 W)"."""
    known = ~np.isnan(shape.power_watts)
    if not known.any():
        return "power is not known"
    watts, limit = shape.power_watts[known], frame.history.power_limit_watts[known].astype(np.float64)
    with np.errstate(invalid="ignore"):
        share = float(np.nanmax(watts / limit)) if not np.isnan(limit).all() else None
    reach = f"{watts.min():.0f}-{watts.max():.0f} W"
    if share is None:
        return f"{known.sum()} GPUs draw {reach}"
    return (
        f"{known.sum()} of {shape.gpus} GPUs at or below {max(1, round(share * 100))} % of their power limit ({reach})"
    )


def gpu_rows(frame: Frame, shape: Shape) -> list[Mapping[str, Any]]:
    """One row per GPU for the picture: node, index, uuid, power, limit, learnt power, utilization."""
    band = frame.learnt.power
    fits = band is not None and len(band.median_watts) == shape.gpus
    rows: list[Mapping[str, Any]] = []
    for i, ref in enumerate(frame.gpus[:SHOWN_GPUS]):
        row = {
            "node": ref.node,
            "index": ref.index,
            "uuid": ref.uuid,
            "power_watts": _number(shape.power_watts[i]),
            "power_limit_watts": _number(float(frame.history.power_limit_watts[i])),
            "utilization_ratio": _number(shape.utilization_ratio[i], 3),
            "learnt_power_watts": _number(band.median_watts[i]) if fits and band is not None else None,
        }
        rows.append({key: value for key, value in row.items() if value is not None})
    return rows


def cost(frame: Frame, seconds: float, gpus: int) -> dict[str, Any]:
    """What the standstill takes: GPU-hours so far and per hour, in money where a price is set."""
    if not gpus:
        return {}
    out: dict[str, Any] = {"gpu_hours_lost": round(gpus * seconds / 3600, 1), "gpu_hours_per_hour": gpus}
    if frame.gpu_hour_price is not None:
        out["cost_per_hour"] = round(gpus * frame.gpu_hour_price, 2)
        out["cost_so_far"] = round(gpus * seconds / 3600 * frame.gpu_hour_price, 2)
        out["currency"] = frame.currency
    return out


def duration(seconds: float) -> str:
    """ "3 m 12 s", "2 h 5 m"."""
    whole = round(max(0.0, seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} m"


def _number(value: float, digits: int = 1) -> float | None:
    return None if np.isnan(value) else round(float(value), digits)
