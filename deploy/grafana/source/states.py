"""States and phases of a run as numbers with a word and a colour, so that they can be drawn over time."""

from __future__ import annotations

from deploy.grafana.source.panels import BLUE, GREEN, GREY, ORANGE, RED, YELLOW
from deploy.grafana.source.queries import metric
from watcher.daemon.run_metrics import PHASES
from watcher.daemon.views import STATES

COLOURS = {
    "not started": GREY, "startup": YELLOW, "training": GREEN, "evaluation": BLUE, "checkpoint": "purple",
    "finished": "dark-green", "stopped": "light-red", "notice": "light-yellow", "warning": ORANGE, "critical": RED,
}  # fmt: skip
STATE_WORDS = {number: (word, COLOURS[word]) for number, word in enumerate(STATES)}
PHASE_WORDS = {number: (word, COLOURS[word]) for number, word in enumerate(PHASES)}


def state_number(run: str) -> str:
    """Place of the run's state in STATES, by run."""
    return _number("runwatch_run_state", "state", STATES, run)


def phase_number(run: str) -> str:
    return _number("runwatch_run_phase", "phase", PHASES, run)


def _number(name: str, label: str, words: tuple[str, ...], run: str) -> str:
    places = (f"{place} * ({metric(name, run=run, **{label: f'={word}'})} == 1)" for place, word in enumerate(words))
    return f"max by (run) ({' or '.join(places)})"
