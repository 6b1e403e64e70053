"""The `channels:` and `routes:` sections: who hears what. Each kind of channel owns its section."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator

from alerts.channels._api import ChannelPlugin, load_channels
from alerts.channels.alertmanager import Alertmanager
from alerts.incidents import Hysteresis
from alerts.policy import AlertPolicy, Escalation, Match, Route, Silence
from alerts.worker import Channel
from detectors.verdict import Severity
from watcher.config.node_labels import Labels, nodes_with

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
    labels: dict[str, Names] = Field(default_factory=dict)  # of the node, as node_labels gives them

    def build(self, labels: Mapping[str, Labels]) -> Match:
        """Raises ValueError where no node has a label that is wanted."""
        among = nodes_with(labels, self.labels)
        return Match(signatures=self.signature, runs=self.run, nodes=self.node, among=among)


class RouteSection(MatchSection):
    """Incidents of at least this severity that match go to these channels."""

    to: Names = Field(min_length=1)
    severity: SeverityName = "info"
    escalate_after_minutes: float | None = Field(default=None, gt=0)  # unacknowledged that long: join then, not at once


class MaintenanceSection(MatchSection):
    """Nothing that matches is sent from `from` until `until`; what is still open then is."""

    name: str = Field(min_length=1, max_length=120)
    begins: AwareDatetime = Field(alias="from")
    until: AwareDatetime

    @model_validator(mode="after")
    def _in_order(self) -> MaintenanceSection:
        if self.until <= self.begins:
            raise ValueError("until must be later than from")
        return self

    def silence(self, labels: Mapping[str, Labels]) -> Silence:
        begins, until = self.begins.timestamp(), self.until.timestamp()
        return Silence(name=self.name, from_at=begins, until_at=until, match=self.build(labels))


class PagingSection(_Section):
    """When an incident ends, when it is the same one again, and how often people hear of it."""

    resolve_after_seconds: float = Field(default=30.0, ge=0, le=3600)
    reopen_window_seconds: float = Field(default=600.0, ge=0, le=86_400)
    reminder_minutes: float = Field(default=240.0, ge=0)  # 0: never
    group_wait_seconds: float = Field(default=20.0, ge=0, le=600)
    pages_per_10_minutes: int = Field(default=20, ge=1)
    fall_back_after_seconds: float = Field(default=300.0, ge=0)

    def hysteresis(self) -> Hysteresis:
        return Hysteresis(
            resolve_after_seconds=self.resolve_after_seconds, reopen_window_seconds=self.reopen_window_seconds
        )


@cache
def channel_model() -> type[BaseModel]:
    """A channel: exactly one kind with its section, and what every channel may have."""
    kinds: dict[str, Any] = {name: (plugin.config | None, None) for name, plugin in load_channels().items()}
    return create_model("Channel", __base__=_OneKind, **kinds)


class _OneKind(_Section):
    """`fallback`: the channel that carries its pages while this one fails."""

    fallback: str | None = None

    @model_validator(mode="after")
    def _one(self) -> _OneKind:
        kinds = load_channels()
        given = [name for name in kinds if getattr(self, name) is not None]
        if len(given) != 1:
            known = ", ".join(sorted(kinds))
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


def fallbacks(channels: Mapping[str, BaseModel]) -> dict[str, str]:
    """channel -> the channel that stands in for it. ValueError where that is none."""
    out = {name: str(wanted) for name, channel in channels.items() if (wanted := getattr(channel, "fallback", None))}
    for name, wanted in out.items():
        if wanted == name or wanted not in channels:
            raise ValueError(f"channels.{name}.fallback: no other channel is called {wanted!r}")
    return out


def alertmanager_of(channels: Mapping[str, BaseModel], name: str | None) -> Alertmanager | None:
    """Where the alert that is always there goes. ValueError where no such channel is an Alertmanager."""
    if name is None:
        return None
    plugin, section = chosen(channels[name]) if name in channels else (None, None)
    built = plugin.build(section) if plugin is not None else None
    if not isinstance(built, Alertmanager):
        raise ValueError(f"daemon.dead_man.alertmanager: no channel of that kind is called {name!r}")
    return built


def check_resends(channels: Mapping[str, BaseModel], interval_seconds: float) -> None:
    """ValueError where cycles are so far apart that an open alert would end by itself on the other side."""
    for name, channel in channels.items():
        every = chosen(channel)[0].traits.resend_seconds
        if every is not None and interval_seconds > every:
            raise ValueError(
                f"channels.{name} forgets what is not said again every {every:g} s: daemon.interval_seconds may be at"
                f" most {every:g}"
            )


def check_labels(config: DaemonConfig) -> None:
    """ValueError with its place where a route or a window wants a label that no node has."""
    places: list[tuple[str, Sequence[MatchSection]]] = [("routes", config.routes), ("maintenance", config.maintenance)]
    for place, sections in places:
        for number, section in enumerate(sections):
            try:
                section.build(config.node_labels)
            except ValueError as error:
                raise ValueError(f"{place}[{number}].labels: {error}") from error


def alert_policy(config: DaemonConfig) -> AlertPolicy:
    labels = config.node_labels
    routes = [r for r in config.routes if r.escalate_after_minutes is None]
    later = [r for r in config.routes if r.escalate_after_minutes is not None]
    return AlertPolicy(
        channels={name: chosen(channel)[0].traits for name, channel in config.channels.items()},
        routes=tuple(Route(to=r.to, severity=Severity.parse(r.severity), match=r.build(labels)) for r in routes),
        escalations=tuple(
            Escalation(
                after_seconds=60 * (r.escalate_after_minutes or 0),
                to=r.to,
                severity=Severity.parse(r.severity),
                match=r.build(labels),
            )
            for r in later
        ),
        silences=tuple(window.silence(labels) for window in config.maintenance),
        reminder_seconds=60 * config.paging.reminder_minutes,
        group_wait_seconds=config.paging.group_wait_seconds,
        pages_per_10_minutes=config.paging.pages_per_10_minutes,
    )
