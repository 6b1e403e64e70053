"""When would it page? The limits in force for each phase, and where each comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from detectors._limits import agreeing_limit, single_limit
from detectors._stall import duration
from detectors.frame import Phase
from watcher.doctor._api import Check, Line, RunScene, Scene


def look(scene: Scene, run: RunScene) -> Iterator[Line]:
    frame = run.frame
    startup = run.detectors["startup_stall"]
    yield Line("ok", "limits", f"start-up: critical {duration(startup.critical_seconds)} after the launch")
    for name in ("training", "evaluation", "checkpoint"):
        at = replace(frame, phase=Phase(name=name, since_at=frame.now, announced=True))
        agreeing = agreeing_limit(at, run.detectors["low_power_deadlock"])
        single = single_limit(at, run.detectors["busy_stall"])
        yield Line(
            "ok", "limits",
            f"{name}: {duration(agreeing.seconds)} where power agrees ({agreeing.origin}), "
            f"{duration(single.seconds)} by steps alone ({single.origin})",
        )  # fmt: skip
    floor = run.detectors["throughput_floor"].floor
    if floor is None:
        yield Line("note", "limits", "no throughput floor is set", "detectors: {throughput_floor: {floor: ...}}")
    if frame.learnt.power is None:
        yield Line("note", "limits", "working power is not learnt yet: fractions of the power limit stand in for it")
    else:
        yield Line(
            "ok", "limits", f"works at {frame.learnt.power.run_median_watts:.0f} W a GPU ({frame.learnt.origin})"
        )


CHECK = Check(40, of_run=look)
