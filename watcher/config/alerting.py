"""The `channels:` and `routes:` sections: who hears what. Each kind of channel owns its section."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator

from alerts.channels._api import ChannelPlugin, load_channels
from alerts.policy import AlertPolicy, Escalation, Match, Route
from alerts.worker import Channel
from detectors.verdict import Severity

if TYPE_CHECKING:
    from watcher.config.daemon import DaemonConfig

SeverityName = Literal["info", "warning", "critical"]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_as_tuple)]


class MatchSection(_Section):
    """Shell-style patterns; an empty list matches everything."""

    signature: Names = ()
    run: Names = ()
    node: Names = ()

    def build(self) -> Match:
        return Match(signatures=self.signature, runs=self.run, nodes=self.node)


class RouteSection(MatchSection):
    """Incidents of at least this severity that match go to these channels."""

    to: Names = Field(min_length=1)
    severity: SeverityName = "info"
    escalate_after_minutes: float | None = Field(default=None, gt=0)  # unacknowledged that long: join then, not at once


@cache
def channel_model() -> type[BaseModel]:
    """A channel: exactly one kind with its section, and what every channel may have."""
    kinds: dict[str, Any] = {name: (plugin.config | None, None) for name, plugin in load_channels().items()}
    return create_model("Channel", __base__=_OneKind, **kinds)


class _OneKind(_Section):
    @model_validator(mode="after")
    def _one(self) -> _OneKind:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            known = ", ".join(sorted(load_channels()))
            raise ValueError(f"a channel is one of {known}" + (f", not {' and '.join(given)}" if given else ""))
        return self


if TYPE_CHECKING:
    ChannelChoice = BaseModel
else:
    ChannelChoice = channel_model()

Channels = Annotated[dict[str, ChannelChoice], BeforeValidator(lambda value: _with_empty_sections(value))]


def _with_empty_sections(value: Any) -> Any:
    """`console:` alone is enough where nothing has to be set."""
    if not isinstance(value, dict):
        return value
    return {
        name: {kind: {} if inner is None else inner for kind, inner in item.items()} if isinstance(item, dict) else item
        for name, item in value.items()
    }


def chosen(channel: BaseModel) -> tuple[ChannelPlugin, Any]:
    """The kind and the section of a channel."""
    for name, plugin in load_channels().items():
        section = getattr(channel, name)
        if section is not None:
            return plugin, section
    raise AssertionError("a channel was checked to have one kind")


def build_channels(channels: Mapping[str, BaseModel]) -> dict[str, Channel]:
    out = {}
    for name, channel in channels.items():
        plugin, section = chosen(channel)
        out[name] = plugin.build(section)
    return out


def alert_policy(config: DaemonConfig) -> AlertPolicy:
    routes = [r for r in config.routes if r.escalate_after_minutes is None]
    later = [r for r in config.routes if r.escalate_after_minutes is not None]
    return AlertPolicy(
        channels={name: chosen(channel)[0].traits for name, channel in config.channels.items()},
        routes=tuple(Route(to=r.to, severity=Severity.parse(r.severity), match=r.build()) for r in routes),
        escalations=tuple(
            Escalation(
                after_seconds=60 * (r.escalate_after_minutes or 0),
                to=r.to,
                severity=Severity.parse(r.severity),
                match=r.build(),
            )
            for r in later
        ),
    )
