"""Requeues the job of a confirmed deadlock. Dry run only for now: the page says what would have been done."""

from __future__ import annotations

from pydantic import Field

from alerts.actions import Due
from watcher.actions._api import ActionConfig, ActionPlugin


class SlurmRequeue(ActionConfig):
    scontrol: str = Field(default="scontrol", min_length=1)


def argv(section: SlurmRequeue, due: Due) -> tuple[str, ...]:
    return (section.scontrol, "requeue", due.target)


PLUGIN = ActionPlugin("slurm_requeue", SlurmRequeue, argv, of="job", dry_only=True)
