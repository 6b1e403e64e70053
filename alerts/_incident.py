"""What an incident is, and what happened to it. Instants are unix seconds; nothing here reads a clock."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from alerts._plain import plain
from detectors.verdict import Severity, Subject

State = Literal["suspect", "open", "resolved"]
Event = Literal["suspected", "opened", "updated", "resolved"]
MAX_KEY = 200  # leaves room for a suffix within the 255 characters of a pager's key


def bounded_key(key: str) -> str:
    """The key itself, or a readable start plus a hash where it is long. The same for ever for the same key."""
    if len(key) <= MAX_KEY:
        return key
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{key[: MAX_KEY - 33]}~{digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One trouble with one key, from the first suspicion to its end.

    `run` is the run whose detectors judge it (also where the subject is a node). `id` names this opening; the key
    names the trouble and is what a pager sees. `opens` counts how often it opened in one series of flaps.
    """

    key: str
    id: str
    family: str
    signature: str
    severity: Severity
    state: State
    subject: Subject
    run: str | None
    summary: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    hint: str = ""
    precision: int = 0
    shadow: bool = False  # judged by a detector on trial: recorded, never sent
    notice: bool = False  # news, not a state: opens and resolves at once
    attempt: int | None = None  # of the run when it opened
    since_at: float | None = None  # when the condition began, where the detector knows
    suspect_since_at: float
    firing_seconds: float = 0.0  # how long it was seen firing; gaps without evaluation do not count
    opened_at: float | None = None
    resolved_at: float | None = None
    last_firing_at: float
    last_changed_at: float
    clear_since_at: float | None = None
    last_clear_at: float | None = None
    resolve_reason: str = ""
    fired_by: tuple[str, ...] = ()  # detectors whose clear look is needed before it may resolve
    opens: int = 0
    quiet_until_clear: bool = False  # closed by hand, or a notice: says nothing more until it was clear once
    restart_hold_seconds: float = 0.0
    explained_by: tuple[str, ...] = ()  # keys of incidents that this one follows from
    acknowledged_at: float | None = None
    acknowledged_by: str | None = None
    snoozed_until_at: float | None = None

    @property
    def began_at(self) -> float:
        """The best known start: what the detector says, else the first suspicion."""
        return self.since_at if self.since_at is not None else self.suspect_since_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One step in the life of an incident; `incident` is how it is afterwards."""

    at: float
    event: Event
    incident: Incident
    previous: Incident | None = None
    reason: str = ""

    @property
    def raised(self) -> bool:
        """True where an incident that was open already became more severe."""
        before = self.previous
        return before is not None and before.state == "open" and self.incident.severity > before.severity


def transition_to_json(transition: Transition) -> dict[str, Any]:
    """The object that `replay --json` prints; JSON-ready."""
    incident = transition.incident
    subject = incident.subject
    return {
        "at": transition.at,
        "event": transition.event,
        "key": incident.key,
        "signature": incident.signature,
        "severity": incident.severity.label,
        "run": incident.run,
        "subject": {"node": subject.node, "gpu": subject.gpu, "gpu_index": subject.gpu_index},
        "summary": incident.summary,
        "evidence": plain(incident.evidence),
    }
