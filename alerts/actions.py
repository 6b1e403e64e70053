"""Which actions are due: opt-in rules on open incidents, and every reason why one is not. Pure; nothing here acts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from alerts._incident import Incident
from alerts._rules import Match
from alerts.signals import signals_of
from detectors.verdict import Severity

SIGNALS_NEEDED = 2
DAY_SECONDS = 86_400.0
NODE = re.compile(r"(?!all$)[a-z0-9]([a-z0-9._-]{0,251}[a-z0-9])?", re.I | re.A)  # one node, no list, no option


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRule:
    """`match.signatures` is never empty: nothing is done for whatever may come. `of`: what the action is done to."""

    name: str
    kind: str
    match: Match
    of: str = "node"  # node | job
    dry_run: bool = True
    after_seconds: float = 60.0
    most_per_day: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """A row of the audit: what was done, or would have been. `outcome` "" while it is under way."""

    at: float
    rule: str
    kind: str
    target: str
    key: str
    incident_id: str
    signature: str
    run: str | None = None
    signals: tuple[str, ...] = ()
    dry_run: bool = True
    command: tuple[str, ...] = ()
    outcome: str = ""
    ok: bool | None = None


@dataclass(frozen=True, slots=True)
class Due:
    """An action to be taken now."""

    rule: ActionRule
    incident: Incident
    target: str
    signals: tuple[str, ...]


@dataclass(slots=True)
class Decided:
    """`refused`: rule and incident key -> why nothing is done."""

    due: list[Due] = field(default_factory=list)
    refused: dict[tuple[str, str], str] = field(default_factory=dict)


def decide_actions(
    rules: Iterable[ActionRule], incidents: Mapping[str, Incident], deeds: Sequence[Deed],
    jobs: Mapping[str, str], now: float,
) -> Decided:  # fmt: skip
    """`deeds`: the audit so far. `jobs`: run -> id of its job, where a scheduler tells it."""
    decided = Decided()
    for rule in rules:
        for incident in incidents.values():
            if incident.state != "open" or incident.shadow or not rule.match.fits(incident):
                continue
            if any(deed.rule == rule.name and deed.incident_id == incident.id for deed in deeds):
                continue
            target = incident.subject.node if rule.of == "node" else jobs.get(incident.run or "")
            signals = signals_of(incident, incidents.values(), now)
            taken = [deed for deed in deeds if deed.rule == rule.name and now - deed.at < DAY_SECONDS]
            taken_now = [due.target for due in decided.due if due.rule is rule]
            why = _why_not(rule, incident, target, signals, len(taken) + len(taken_now), now)
            same = [deed.target for deed in taken if deed.ok is not False and deed.dry_run == rule.dry_run]
            if why is None and target in (*same, *taken_now):
                why = f"it was done to {target} today already"
            if why is None and target is not None:
                decided.due.append(Due(rule, incident, target, signals))
            else:
                decided.refused[rule.name, incident.key] = why or ""
    return decided


def _why_not(
    rule: ActionRule, incident: Incident, target: str | None, signals: Sequence[str], taken: int, now: float
) -> str | None:
    if incident.severity < Severity.CRITICAL:
        return "it is not critical"
    if incident.acknowledged_at is not None:
        return f"{incident.acknowledged_by or 'somebody'} is at it"
    if incident.snoozed_until_at is not None and incident.snoozed_until_at > now:
        return "it is snoozed"
    if target is None:
        return "no node is named" if rule.of == "node" else "the job is not known: no scheduler tells it"
    if rule.of == "node" and NODE.fullmatch(target) is None:
        return f"{target[:60]!r} is not the plain name of one node"
    if incident.opened_at is not None and now - incident.opened_at < rule.after_seconds:
        return f"it is open for less than {rule.after_seconds:g} s"
    if len(signals) < SIGNALS_NEEDED:
        return f"only one signal speaks for it: {', '.join(signals) or 'none that is known'}"
    if taken >= rule.most_per_day:
        return f"{taken} today already, at most {rule.most_per_day} a day"
    return None


def deed_to_json(deed: Deed) -> dict[str, Any]:
    """As it is stored and shown."""
    return {name: getattr(deed, name) for name in Deed.__slots__}


def deed_from_json(raw: Mapping[str, Any]) -> Deed:
    """Raises ValueError, KeyError or TypeError where it is none."""
    known = {name: raw[name] for name in Deed.__slots__ if name in raw}
    return Deed(**{**known, "signals": tuple(known.get("signals", ())), "command": tuple(known.get("command", ()))})
