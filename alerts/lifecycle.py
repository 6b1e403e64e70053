"""What a person does to an incident. Pure: each answers the transition that records it."""

from __future__ import annotations

from dataclasses import replace

from alerts._duration import instant
from alerts._incident import Incident, Transition
from alerts._text import one_line

MAX_NAME = 100
MAX_WHY = 500


def acknowledge(incident: Incident, by: str, now: float) -> Transition:
    """Somebody has it: no reminders, no escalation. A raise in severity is told all the same."""
    name = one_line(by, MAX_NAME)
    after = replace(incident, acknowledged_at=now, acknowledged_by=name, last_changed_at=now)
    return Transition(at=now, event="updated", incident=after, previous=incident, reason=f"acknowledged by {name}")


def snooze(incident: Incident, until_at: float, by: str, now: float) -> Transition:
    """Nothing is sent until then. `until_at` in the past ends a snooze."""
    after = replace(incident, snoozed_until_at=until_at, last_changed_at=now)
    reason = f"snoozed until {instant(until_at)} by {one_line(by, MAX_NAME)}"
    return Transition(at=now, event="updated", incident=after, previous=incident, reason=reason)


def close(incident: Incident, why: str, by: str, now: float) -> Transition:
    """Ended by a person. It opens again only after a clear look, or at once if it becomes more severe."""
    reason = f"closed by {one_line(by, MAX_NAME)}: {one_line(why, MAX_WHY) or 'no reason given'}"
    after = replace(
        incident, state="resolved", resolved_at=now, last_changed_at=now, resolve_reason=reason, quiet_until_clear=True
    )
    return Transition(at=now, event="resolved", incident=after, previous=incident, reason=reason)
