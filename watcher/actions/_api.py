"""What an action is: one file = one kind, which says the command for a target. Deciding and running are elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

import watcher.actions
from alerts.actions import Due
from detectors import plugins


class ActionConfig(BaseModel):
    """Base of every kind's own section."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class ActionPlugin:
    """`argv(section, due)`: program and arguments, no shell. `of`: node or job. `dry_only`: never really done."""

    name: str
    config: type[ActionConfig]
    argv: Callable[[Any, Due], tuple[str, ...]]
    of: str = "node"
    dry_only: bool = False


def load_actions() -> dict[str, ActionPlugin]:
    """All kinds by name. Raises PluginError with the name of a broken one."""
    return plugins.load(watcher.actions, ActionPlugin, "action")


def reason_of(due: Due, limit: int = 120) -> str:
    """One plain line for a scheduler's own record."""
    text = f"runwatch {due.incident.signature} of {due.incident.run or due.target}: {due.incident.summary}"
    plain = "".join(letter if letter.isalnum() or letter in " .,:;/_-()" else " " for letter in text)
    return " ".join(plain.split())[:limit]
