"""`daemon.telemetry`: where GPUs are seen without our agent. Each item has one kind; the plug-in owns its section."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, create_model, model_validator

from watcher.telemetry._api import TelemetryPlugin, load_telemetry

if TYPE_CHECKING:
    from watcher.clock import Clock
    from watcher.daemon.answer import AnswerSource


class _OneKind(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="after")
    def _one(self) -> _OneKind:
        kinds = load_telemetry()
        given = [name for name in kinds if getattr(self, name) is not None]
        if len(given) != 1:
            known = ", ".join(kinds)
            raise ValueError(f"each item is one of {known}" + (f", not {' and '.join(given)}" if given else ""))
        return self


@cache
def telemetry_model() -> type[BaseModel]:
    """An item: exactly one kind with its section."""
    kinds: dict[str, Any] = {name: (plugin.config | None, None) for name, plugin in load_telemetry().items()}
    return create_model("Telemetry", __base__=_OneKind, **kinds)


def _plain(value: Any) -> Any:
    """`dcgm_exporter` alone is enough where nothing has to be set."""
    if isinstance(value, str):
        return {value: {}}
    if not isinstance(value, dict):
        return value
    return {kind: {} if section is None else section for kind, section in value.items()}


if TYPE_CHECKING:
    Item = BaseModel
else:
    Item = Annotated[telemetry_model(), BeforeValidator(_plain)]

Telemetry = tuple[Item, ...]


def chosen(item: BaseModel) -> tuple[TelemetryPlugin, Any]:
    """The kind and the section of an item."""
    for name, plugin in load_telemetry().items():
        if (section := getattr(item, name)) is not None:
            return plugin, section
    raise AssertionError("an item was checked to have one kind")


def build_telemetry(items: Sequence[BaseModel], nodes: Sequence[str], clock: Clock) -> list[AnswerSource]:
    """One source an item; each is asked about all `nodes`."""
    return [plugin.build(section, nodes, clock) for plugin, section in map(chosen, items)]


def telemetry_notes(items: Sequence[BaseModel]) -> list[str]:
    """What the chosen kinds cannot tell, a line each."""
    return [
        f"daemon.telemetry[{number}]: {plugin.name}: {note}"
        for number, (plugin, section) in enumerate(map(chosen, items))
        for note in plugin.notes(section)
    ]
