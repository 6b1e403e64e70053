"""Parts of a run's state as plain JSON values and back. Readers raise KeyError, TypeError or ValueError."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from detectors.frame import Attempt, PastAttempt, Phase, PowerBand, RunError, Scheduler, StepRecord
from watcher.daemon.gaps import Gaps
from watcher.daemon.nodes import NodeFold
from watcher.daemon.pace import PaceKeeper
from watcher.daemon.progress import RunProgress
from watcher.daemon.saves import Saves

NUMBERS = (
    "source", "last_line_at", "last_step", "last_step_at", "first_step", "first_step_at", "last_progress_at",
    "steps_seen", "total_steps", "between", "implied_end", "best_step",
)  # fmt: skip
RECORDS = 256  # enough for every baseline; more would make each save larger for nothing
NODE = ("inventory", "last_seen", "lost_at", "ecc_baseline", "ecc_last", "remap_failed", "failures", "answered_at")


def dump_progress(run: RunProgress) -> dict[str, Any]:
    return {
        "attempt": asdict(run.attempt),
        "past": [asdict(item) for item in run.past],
        "phase": asdict(run.phase),
        "gaps": {name: gaps.values() for name, gaps in run.gaps.items()},
        "durations": {name: gaps.values() for name, gaps in run.durations.items()},
        "saves": run.saves.dump(),
        "records": [asdict(record) for record in list(run.records)[-RECORDS:]],
        "arrivals": list(run.arrivals),
        "rank_steps": list(run.rank_steps.items()),
        "pace": run.pace.dump(),
        "numbers": {name: getattr(run, name) for name in NUMBERS},
    }


def load_progress(raw: dict[str, Any]) -> RunProgress:
    run = RunProgress()
    run.attempt = _attempt(raw["attempt"])
    run.past.extend(_past(item) for item in raw["past"])
    run.phase = Phase(**raw["phase"])
    run.gaps = {name: Gaps.of(values) for name, values in raw["gaps"].items()}
    run.durations = {name: Gaps.of(values) for name, values in raw["durations"].items()}
    run.saves = Saves.load(raw["saves"])
    run.records.extend(StepRecord(**record) for record in raw["records"])
    run.arrivals.extend((at, step) for at, step in raw["arrivals"])
    run.rank_steps = {int(rank): step for rank, step in raw["rank_steps"]}
    run.pace = PaceKeeper.load(raw["pace"])
    for name in NUMBERS:
        setattr(run, name, raw["numbers"][name])
    return run


def load_band(raw: dict[str, Any] | None) -> PowerBand | None:
    if raw is None:
        return None
    return PowerBand(**{**raw, "median_watts": tuple(raw["median_watts"]), "spread_watts": tuple(raw["spread_watts"])})


def load_scheduler(raw: list[Any] | None) -> tuple[float, Scheduler | None]:
    """When it was told, and what."""
    if raw is None:
        return 0.0, None
    return float(raw[0]), Scheduler(**{**raw[1], "nodes": tuple(raw[1]["nodes"])})


def dump_node(node: NodeFold) -> dict[str, Any]:
    return {name: getattr(node, name) for name in NODE}


def load_node(name: str, raw: dict[str, Any]) -> NodeFold:
    return NodeFold(name, **{field: raw[field] for field in NODE})


def _attempt(raw: dict[str, Any]) -> Attempt:
    errors = tuple(RunError(**error) for error in raw["errors"])
    return Attempt(**{**raw, "errors": errors, "nodes": tuple(raw["nodes"])})


def _past(raw: dict[str, Any]) -> PastAttempt:
    cause = RunError(**raw["cause"]) if raw["cause"] else None
    return PastAttempt(**{**raw, "cause": cause, "nodes": tuple(raw["nodes"])})
