"""Drains a node in Slurm: what runs there runs on, nothing new is placed there."""

from __future__ import annotations

from pydantic import Field

from alerts.actions import Due
from watcher.actions._api import ActionConfig, ActionPlugin, reason_of


class SlurmDrain(ActionConfig):
    """`scontrol`: the program, where it is not on the daemon's PATH."""

    scontrol: str = Field(default="scontrol", min_length=1)


def argv(section: SlurmDrain, due: Due) -> tuple[str, ...]:
    return (section.scontrol, "update", f"nodename={due.target}", "state=drain", f"reason={reason_of(due)}")


PLUGIN = ActionPlugin("slurm_drain", SlurmDrain, argv)
