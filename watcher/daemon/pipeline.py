"""The deciding part without a clock, socket or file, for replay and tests; the daemon does the same with a desk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from alerts.incidents import Hysteresis, Incident, Judged, StepResult, step
from detectors.frame import Frame
from watcher.daemon.evaluate import Active, Evaluator
from watcher.daemon.fold import RunFold


@dataclass(slots=True)
class WatchedRun:
    """A run, and the detectors as its config wants them."""

    fold: RunFold
    detectors: Sequence[Active]


class Pipeline:
    """fold -> frame -> verdicts -> incidents. `incidents` is what is known to be open, by key."""

    def __init__(
        self,
        runs: Sequence[WatchedRun],
        hysteresis: Hysteresis | None = None,
        incidents: Mapping[str, Incident] | None = None,
    ) -> None:
        self.runs = {run.fold.settings.name: run for run in runs}
        self.hysteresis = hysteresis or Hysteresis()
        self.incidents: Mapping[str, Incident] = dict(incidents or {})
        self.frames: dict[str, Frame] = {}
        self.evaluator = Evaluator()

    def tick(self, now: float, extra: Sequence[Judged] = ()) -> StepResult:
        """One evaluation of every run. `extra`: what the daemon has to say of itself (delivery, lateness)."""
        judged = list(extra)
        for name, run in self.runs.items():
            frame = run.fold.frame(now)
            self.frames[name] = frame
            judged += self.evaluator.judge(frame, run.detectors)
        result = step(self.incidents, judged, now, self.hysteresis)
        self.incidents = result.incidents
        tell_open(self.runs.values(), self.incidents)
        return result


def tell_open(runs: Iterable[WatchedRun], incidents: Mapping[str, Incident]) -> None:
    """Each run hears which families are open for it."""
    for run in runs:
        name = run.fold.settings.name
        run.fold.tell_open({i.family for i in incidents.values() if i.run == name and i.state == "open"})
