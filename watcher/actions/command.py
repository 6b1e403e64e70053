"""Any program of yours, with the target as its last argument."""

from __future__ import annotations

from pydantic import Field

from alerts.actions import Due
from watcher.actions._api import ActionConfig, ActionPlugin


class CommandAction(ActionConfig):
    """`argv`: program and arguments, no shell."""

    argv: tuple[str, ...] = Field(min_length=1)


def argv(section: CommandAction, due: Due) -> tuple[str, ...]:
    return (*section.argv, due.target)


PLUGIN = ActionPlugin("command", CommandAction, argv)
