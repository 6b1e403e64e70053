"""What a person configures about who hears what: routes, escalation, windows of silence, and what hushes what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from alerts._incident import Incident
from detectors.verdict import Severity


@dataclass(frozen=True, slots=True)
class NodeSet:
    """Nodes by name, of which there may be thousands, and by shell-style pattern."""

    names: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()

    def holds(self, node: str | None) -> bool:
        return node is not None and (node in self.names or matches(self.patterns, node))


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Empty lists match everything; patterns are shell-style. `signatures` also takes the name of a family. `among`:
    the node must be in each of them."""

    signatures: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    among: tuple[NodeSet, ...] = ()

    def fits(self, incident: Incident) -> bool:
        return (
            _one_of(self.signatures, incident.signature, incident.family)
            and _one_of(self.runs, incident.run)
            and _one_of(self.nodes, incident.subject.node)
            and all(group.holds(incident.subject.node) for group in self.among)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Incidents of at least this severity that fit go to these channels. All routes that fit count."""

    to: tuple[str, ...]
    severity: Severity = Severity.INFO
    match: Match = field(default_factory=Match)

    def fits(self, incident: Incident) -> bool:
        return incident.severity >= self.severity and self.match.fits(incident)


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """Channels that join when nobody has acknowledged this long after the first page."""

    after_seconds: float
    to: tuple[str, ...]
    severity: Severity = Severity.CRITICAL
    match: Match = field(default_factory=Match)


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A maintenance window or a snooze of many: nothing that fits is sent from `from_at` until `until_at`."""

    name: str
    until_at: float
    from_at: float = 0.0
    match: Match = field(default_factory=Match)

    def covers(self, incident: Incident, now: float) -> bool:
        return self.from_at <= now < self.until_at and self.match.fits(incident)


@dataclass(frozen=True, slots=True)
class Inhibition:
    """While one of `by` is open and told on a channel, `hush` is not sent there for the same node (or run)."""

    by: tuple[str, ...]
    hush: tuple[str, ...]
    same: str  # node | run


@dataclass(frozen=True, slots=True)
class ChannelTraits:
    """`keeps_state`: the other side holds an incident open until told. `escalates`: it reminds people by itself.
    `resend_seconds`: it forgets what is not said again that often."""

    keeps_state: bool = False
    escalates: bool = False
    resend_seconds: float | None = None


INHIBITIONS = (
    Inhibition(("node_unreachable",), ("gpu_*", "slow_gpu", "nvml_unresponsive", "xid", "link_fault"), "node"),
    Inhibition(("gpu_lost",), ("slow_gpu", "gpu_throttled", "gpu_idle"), "node"),
    Inhibition(
        ("stall", "crash"),
        ("throughput_drop", "throughput_floor", "gpu_idle", "slow_gpu", "log_silent", "checkpoint_overdue"),
        "run",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPolicy:
    """`channels` names every channel there is. Without routes everything goes to all of them.

    Incidents of nodes wait `group_wait_seconds` for their like and go out as one page; more than `storm_from` pages
    at once, or more than `pages_per_10_minutes`, become one page with a list.
    """

    channels: Mapping[str, ChannelTraits]
    routes: tuple[Route, ...] = ()
    escalations: tuple[Escalation, ...] = ()
    silences: tuple[Silence, ...] = ()
    inhibitions: tuple[Inhibition, ...] = INHIBITIONS
    reminder_seconds: float = 14_400.0
    group_wait_seconds: float = 20.0
    storm_from: int = 8
    pages_per_10_minutes: int = 20

    def routed(self, incident: Incident) -> frozenset[str]:
        if not self.routes:
            return frozenset(self.channels)
        return frozenset(name for route in self.routes if route.fits(incident) for name in route.to)


def matches(patterns: tuple[str, ...], *names: str | None) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names if name is not None)


def _one_of(patterns: tuple[str, ...], *names: str | None) -> bool:
    return not patterns or matches(patterns, *names)
