"""The first line of the page: what is wrong, or that nothing is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alerts.incidents import Incident
from watcher.daemon.page.incident import title, tone
from watcher.daemon.page.runs import RunWords


@dataclass(frozen=True, slots=True)
class Headline:
    """`tone` as in RunWords; `more` is a second, smaller line."""

    tone: str
    text: str
    more: str = ""


def headline(runs: Sequence[RunWords], live: Sequence[Incident], waiting: Sequence[str] = ()) -> Headline:
    """`live`: open incidents, the most urgent first. `waiting`: runs that were not looked at yet."""
    sent = [one for one in live if not one.shadow]
    if sent:
        others = [f"{n} more {label}" for label in ("critical", "warning", "info") if (n := _count(sent[1:], label))]
        return Headline(tone(sent[0]), title(sent[0]), ", ".join(others))
    if not runs and not waiting:
        return Headline("notice", "No run is watched")
    if not runs:
        return Headline("quiet", "First look under way", f"{len(waiting)} runs are about to be looked at")
    gpus = sum(run.facts.gpu_count for run in runs)
    moving = sum(run.tone == "good" for run in runs)
    if moving == len(runs):
        text = f"{runs[0].name} {runs[0].doing}" if len(runs) == 1 else f"All {len(runs)} runs are going on"
    else:
        text = f"{moving} of {len(runs)} runs going on" if len(runs) > 1 else f"{runs[0].name} {runs[0].doing}"
    return Headline("good" if moving else "quiet", text, f"no incident is open, {gpus} GPUs watched")


def _count(incidents: Sequence[Incident], label: str) -> int:
    return sum(one.severity.label == label for one in incidents)
