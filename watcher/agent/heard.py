"""What the node's own logs have told so far: counts and the latest of it, for metrics that need no daemon."""

from __future__ import annotations

from dataclasses import dataclass

from watcher.events import LogEvent, PhaseName


@dataclass(slots=True)
class Heard:
    """Instants in unix seconds. With the logs of several ranks it is what any of them said last."""

    steps_count: int = 0
    errors_count: int = 0
    last_step: int | None = None
    last_progress_at: float | None = None
    phase: PhaseName | None = None

    def note(self, at: float, event: LogEvent, *, again: bool = False) -> None:
        """`again`: it was counted before a restart of the agent."""
        match event.event:
            case "step":
                self.steps_count += not again
                self.phase = "training"
                if event.step is not None:
                    self.last_step = event.step
            case "phase":
                self.phase = event.phase if event.edge != "end" else "training"
            case "error":
                self.errors_count += not again
                return
        self.last_progress_at = at
