"""How a finding becomes an incident, and how an incident takes up what a finding says."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from alerts._incident import Incident
from alerts._looks import Found
from alerts._plain import plain
from alerts._text import clean, one_line

MAX_INSTANT = 1e11  # the year 5138


def _said(found: Found, now: float) -> dict[str, Any]:
    finding = found.finding
    return {
        "run": found.run,
        "subject": finding.subject,
        "summary": one_line(finding.summary),
        "evidence": plain(finding.evidence),
        "hint": clean(finding.hint),
        "since_at": finding.since_at if _is_instant(finding.since_at) else None,
        "restart_hold_seconds": finding.restart_hold_seconds,
        "explained_by": finding.explained_by,
        "fired_by": found.fired_by,
        "last_firing_at": now,
        "clear_since_at": None,
        "last_clear_at": None,
    }


def _is_instant(at: float | None) -> bool:
    return at is not None and 0 <= at < MAX_INSTANT


def new_incident(key: str, found: Found, now: float, continues: Incident | None = None) -> Incident:
    """A suspect, fresh or as the next flap of `continues`."""
    finding = found.finding
    digest = hashlib.sha256(f"{key}|{now:.3f}".encode("utf-8", "surrogatepass")).hexdigest()
    return Incident(
        key=key,
        id=continues.id if continues else digest[:12],
        family=finding.group,
        signature=finding.signature,
        severity=finding.severity,
        precision=finding.precision,
        state="suspect",
        shadow=found.shadow,
        notice=finding.notice,
        attempt=found.attempt,
        suspect_since_at=now,
        last_changed_at=now,
        opens=continues.opens if continues else 0,
        snoozed_until_at=continues.snoozed_until_at if continues else None,
        **_said(found, now),
    )


def refreshed(before: Incident, found: Found, now: float, firing_seconds: float) -> Incident:
    """A suspect follows the best finding freely: nobody has been told anything yet."""
    finding = found.finding
    return replace(
        before,
        signature=finding.signature,
        severity=finding.severity,
        precision=finding.precision,
        attempt=found.attempt,
        firing_seconds=firing_seconds,
        **_said(found, now),
    )


def sharpened(before: Incident, found: Found, now: float) -> tuple[Incident, str]:
    """An open incident only becomes sharper or worse. Answers it and what changed ('' = nothing to tell)."""
    finding = found.finding
    still = replace(before, run=found.run, fired_by=found.fired_by, last_firing_at=now,
                    clear_since_at=None, last_clear_at=None)  # fmt: skip
    if finding.stage == "suspect":
        return still, ""
    same = finding.signature == before.signature
    worse = finding.severity > before.severity
    takes_over = same or (finding.precision, finding.severity) > (before.precision, before.severity)
    reasons = []
    if takes_over and not same:
        reasons.append(f"now seen as {finding.signature}, was {before.signature}")
    if worse:
        reasons.append(f"now {finding.severity.label}, was {before.severity.label}")
    said = _said(found, now) | {"signature": finding.signature, "precision": finding.precision} if takes_over else {}
    incident = replace(
        still,
        severity=max(before.severity, finding.severity),
        last_changed_at=now if reasons else before.last_changed_at,
        **said,
    )
    return incident, "; ".join(reasons)
