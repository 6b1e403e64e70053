"""The `detectors:` section: every plug-in's own config dataclass as a section, plus `mode`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

from detectors.registry import Plugin, load_plugins

Mode = Literal["active", "shadow", "off"]


class DetectorSection(BaseModel):
    """`mode`: active, shadow (judged and recorded, never sent) or off. Only what is written is set."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    mode: Mode = "active"


@cache
def detectors_model() -> type[BaseModel]:
    """A model with one optional section per detector that is installed."""
    sections: dict[str, Any] = {name: (_section(plugin) | None, None) for name, plugin in load_plugins().items()}
    return create_model("Detectors", __config__=ConfigDict(extra="forbid", frozen=True), **sections)


def _section(plugin: Plugin) -> Any:
    hints = get_type_hints(plugin.config)
    values: dict[str, Any] = {}
    for field in fields(plugin.config):
        if field.default is not MISSING:
            default = field.default
        else:
            default = field.default_factory() if field.default_factory is not MISSING else ...
        values[field.name] = (hints[field.name], default)
    return create_model(plugin.config.__name__, __base__=DetectorSection, **values)


def settled(*layers: BaseModel | None) -> tuple[dict[str, Any], dict[str, Mode]]:
    """Configs and modes by detector; later layers win key by key (a run's over the defaults for all runs)."""
    configs: dict[str, Any] = {}
    modes: dict[str, Mode] = {}
    plugins = load_plugins()
    for name, plugin in plugins.items():
        written: dict[str, Any] = {}
        for layer in layers:
            section = getattr(layer, name, None) if layer is not None else None
            if section is not None:
                written.update({key: getattr(section, key) for key in section.model_fields_set})
        modes[name] = written.pop("mode", "active")
        configs[name] = plugin.config(**_plain(written))
    return configs, modes


def _plain(written: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in written.items()}
