"""What a detector answers: Firing with findings, Clear, or Unknown with the reason. Missing data is a state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal

Stage = Literal["suspect", "open"]


class Severity(IntEnum):
    INFO = 1
    WARNING = 2
    CRITICAL = 3

    @property
    def label(self) -> str:
        return self.name.lower()

    @classmethod
    def parse(cls, text: str) -> Severity:
        return cls[text.upper()]


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a finding is about. Empty node and gpu = the run as a whole; empty run = a node, whatever runs on it.

    `gpu` is the UUID (identity); `gpu_index` is for people.
    """

    run: str | None = None
    node: str | None = None
    gpu: str | None = None
    gpu_index: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong now.

    Its identity is (scope, family, gpu): no attempt, no time, no value. `family` groups signatures that are the same
    trouble seen more sharply (`stall`); the incident keeps the member of the highest `precision`.
    Numbers in `evidence` carry their unit in the key, e.g. {"power_watts_median": 151.0}.
    """

    signature: str
    subject: Subject
    severity: Severity
    summary: str  # one line: what, where; no markup
    stage: Stage = "open"
    family: str = ""  # default: the signature
    precision: int = 0
    evidence: Mapping[str, Any] = field(default_factory=dict)
    hint: str = ""  # what to do first
    since_at: float | None = None  # when the condition began, where it is known
    explained_by: tuple[str, ...] = ()  # keys of incidents that began with it and say it already
    notice: bool = False  # opens and resolves in one evaluation (completed)
    restart_hold_seconds: float = 0.0  # the page may wait this long for a new attempt that makes it moot

    @property
    def group(self) -> str:
        return self.family or self.signature

    @property
    def key(self) -> str:
        """`RUN/family` or `NODE/family[/GPU-UUID]`: the incident it belongs to."""
        scope = self.subject.run if self.subject.node is None else self.subject.node
        parts = [scope or "watchdog", self.group]
        if self.subject.gpu:
            parts.append(self.subject.gpu)
        return "/".join(parts)


NOWHERE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Firing:
    """`unknown_nodes`: nodes it could not look at; what is open there stays as it is."""

    findings: tuple[Finding, ...]
    unknown_nodes: frozenset[str] = NOWHERE


@dataclass(frozen=True, slots=True)
class Clear:
    """Looked, with fresh data, and found nothing (but for `unknown_nodes`)."""

    unknown_nodes: frozenset[str] = NOWHERE


@dataclass(frozen=True, slots=True)
class Unknown:
    """Could not look. Neither fires nor resolves."""

    reason: str


Verdict = Firing | Clear | Unknown
CLEAR = Clear()


def firing(findings: Iterable[Finding], unknown_nodes: Iterable[str] = ()) -> Verdict:
    """Firing where there is a finding, else Clear."""
    found, unknown = tuple(findings), frozenset(unknown_nodes)
    return Firing(found, unknown) if found else Clear(unknown)
