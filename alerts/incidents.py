"""The one place with hysteresis: suspect -> open -> resolved.

`step` is pure. What is missing neither opens nor resolves; a clear look counts only when everybody who has a say
looked. No order, loss or doubling of what was judged gives a key a second open incident.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from alerts._duration import spoken
from alerts._incident import Event, Incident, State, Transition, bounded_key, transition_to_json
from alerts._looks import Found, Judged, Looks, Mode, found_by_key
from alerts._opening import new_incident, refreshed, sharpened

__all__ = [
    "Event", "Hysteresis", "Incident", "Judged", "Mode", "State", "StepResult", "Transition", "bounded_key", "step",
    "transition_to_json",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Hysteresis:
    """How long a condition must hold before it opens, and be gone before it resolves.

    A key of the two maps is a signature or a family. An incident that opens again within `reopen_window_seconds` of
    its end is the same one, flapping; from then on it resolves only after `flap_clear_seconds`, so that it cannot page
    more often than that. Two looks further apart than `evidence_gap_seconds` say nothing about the time between.
    """

    open_after_seconds: Mapping[str, float] = field(default_factory=dict)
    resolve_after_seconds: float = 30.0
    resolve_after_by_name: Mapping[str, float] = field(default_factory=dict)
    reopen_window_seconds: float = 600.0
    flap_clear_seconds: float = 600.0
    evidence_gap_seconds: float = 60.0

    def open_after(self, incident: Incident) -> float:
        named = self.open_after_seconds
        return named.get(incident.signature, named.get(incident.family, 0.0))

    def resolve_after(self, incident: Incident) -> float:
        named = self.resolve_after_by_name
        wanted = named.get(incident.signature, named.get(incident.family, self.resolve_after_seconds))
        return max(wanted, self.flap_clear_seconds) if incident.opens > 1 else wanted


@dataclass(frozen=True, slots=True)
class StepResult:
    """`incidents` by key is what the next step starts from; it holds resolved ones while they may come back."""

    incidents: Mapping[str, Incident]
    transitions: tuple[Transition, ...]


def step(
    incidents: Mapping[str, Incident], judged: Sequence[Judged], now: float, policy: Hysteresis | None = None
) -> StepResult:
    """One evaluation. `incidents` is the map of the last result (or what the store loaded)."""
    policy = policy or Hysteresis()
    found, looks = found_by_key(judged), Looks(judged)
    after: dict[str, Incident] = {}
    transitions: list[Transition] = []
    for key in sorted({*incidents, *found}):
        before = incidents.get(key)
        if key in found:
            steps = _fire(key, before, found[key], now, policy)
        elif before is not None and looks.clear(before):
            steps = _clear(before, looks.attempt(before.run), now, policy)
        else:
            steps = [(None, before, "")]
        for event, incident, reason in steps:
            if event is not None and incident is not None:
                transitions.append(Transition(at=now, event=event, incident=incident, previous=before, reason=reason))
            before = incident
        if before is not None and not _forgotten(before, now, policy):
            after[key] = before
    return StepResult(after, tuple(transitions))


Step = tuple[Event | None, Incident | None, str]


def _fire(key: str, before: Incident | None, found: Found, now: float, policy: Hysteresis) -> list[Step]:
    if before is not None and before.state == "open":
        incident, reason = sharpened(before, found, now)
        return [("updated" if reason else None, incident, reason)]
    if before is not None and before.quiet_until_clear and found.finding.severity <= before.severity:
        return [(None, replace(before, last_firing_at=now, clear_since_at=None, last_clear_at=None), "")]
    steps: list[Step] = []
    if before is not None and before.state == "suspect":
        seen = min(max(0.0, now - before.last_firing_at), policy.evidence_gap_seconds)
        incident = refreshed(before, found, now, firing_seconds=before.firing_seconds + seen)
    else:
        incident = new_incident(key, found, now, _still_the_same(before, now, policy))
    waits = found.finding.stage == "suspect" or incident.firing_seconds < policy.open_after(incident)
    if waits and not found.finding.notice:
        is_new = before is None or before.state != "suspect"
        return [("suspected" if is_new else None, incident, "seen, not certain yet" if is_new else "")]
    opened = replace(incident, state="open", opened_at=now, last_changed_at=now, opens=incident.opens + 1)
    steps.append(("opened", opened, _why_opened(opened, before, now)))
    if found.finding.notice:
        steps.append(("resolved", _resolve(opened, "notice", now, quiet=True), "notice"))
    return steps


def _clear(before: Incident, attempt: int | None, now: float, policy: Hysteresis) -> list[Step]:
    if before.state == "suspect":
        return [("resolved", _resolve(before, "the suspicion passed", now), "the suspicion passed")]
    if before.state == "resolved":
        return [(None, replace(before, quiet_until_clear=False, last_clear_at=now), "")]
    since, last = before.clear_since_at, before.last_clear_at
    if since is None or last is None or not 0 <= now - last <= policy.evidence_gap_seconds:
        since = now
    incident = replace(before, clear_since_at=since, last_clear_at=now)
    if now - since < policy.resolve_after(before):
        return [(None, incident, "")]
    reason = _why_resolved(before, attempt, since)
    return [("resolved", _resolve(incident, reason, now), reason)]


def _resolve(incident: Incident, reason: str, now: float, quiet: bool = False) -> Incident:
    return replace(
        incident, state="resolved", resolved_at=now, last_changed_at=now, resolve_reason=reason, quiet_until_clear=quiet
    )


def _still_the_same(before: Incident | None, now: float, policy: Hysteresis) -> Incident | None:
    """The resolved incident that a new firing continues, if it ended just now."""
    if before is None or before.notice or before.opens == 0 or before.resolved_at is None:
        return None
    return before if now - before.resolved_at <= policy.reopen_window_seconds else None


def _forgotten(incident: Incident, now: float, policy: Hysteresis) -> bool:
    if incident.state != "resolved" or incident.quiet_until_clear:
        return False
    ended_at = incident.resolved_at if incident.resolved_at is not None else incident.last_changed_at
    return incident.opens == 0 or now - ended_at > policy.reopen_window_seconds


def _why_opened(opened: Incident, before: Incident | None, now: float) -> str:
    if opened.opens > 1:
        return f"came back, opened {opened.opens} times now"
    if before is not None and before.state == "suspect":
        return f"held for {spoken(now - before.suspect_since_at)}"
    return "found"


def _why_resolved(incident: Incident, attempt: int | None, clear_since_at: float) -> str:
    lasted = spoken(clear_since_at - incident.began_at)
    if attempt is not None and incident.attempt is not None and attempt > incident.attempt:
        return f"restarted as attempt {attempt}, after {lasted}"
    return f"{'moved on by itself' if incident.subject.node is None else 'healthy again'} after {lasted}"
