"""`daemon.telemetry` and `runs[].progress`: GPUs and steps without our agent; each plug-in owns its section."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel

from watcher.config.one_kind import chosen, one_kind_model
from watcher.progress._api import load_progress
from watcher.telemetry._api import NodesNow, load_telemetry

if TYPE_CHECKING:
    from watcher.clock import Clock
    from watcher.daemon.answer import AnswerSource
    from watcher.daemon.fold import RunFold
    from watcher.progress._reader import ProgressReader

    Telemetry = tuple[BaseModel, ...]
    Progress = BaseModel
else:
    Item = one_kind_model("Telemetry", {name: plugin.config for name, plugin in load_telemetry().items()})
    Telemetry = tuple[Item, ...]
    Progress = one_kind_model("Progress", {name: plugin.config for name, plugin in load_progress().items()})


def build_telemetry(items: Sequence[BaseModel], nodes: NodesNow, clock: Clock) -> list[AnswerSource]:
    """One source an item; each is asked about all `nodes()`."""
    plugins = load_telemetry()
    return [plugins[kind].build(section, nodes, clock) for kind, section in map(chosen, items)]


def telemetry_notes(items: Sequence[BaseModel]) -> list[str]:
    """What the chosen kinds cannot tell, a line each."""
    plugins = load_telemetry()
    return [
        f"daemon.telemetry[{number}]: {kind}: {note}"
        for number, (kind, section) in enumerate(map(chosen, items))
        for note in plugins[kind].notes(section)
    ]


def build_progress(item: BaseModel, fold: RunFold, clock: Clock) -> ProgressReader:
    from watcher.progress._reader import ProgressReader

    kind, section = chosen(item)
    return ProgressReader(fold, load_progress()[kind].build(section), clock)
