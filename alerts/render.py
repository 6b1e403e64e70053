"""The words of a page. Pure: the first line says what, which run, since when and what an hour of it costs."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import quote

from alerts._duration import instant, spoken
from alerts._evidence import bar_lines, evidence_lines
from alerts._incident import Incident
from alerts._text import clean, cut, one_line
from alerts.ack_link import ack_url
from alerts.facts import RunFacts
from alerts.notification import Kind, Link, Notification
from alerts.picture import draw
from alerts.policy import Intent

MAX_TITLE = 1_500
MAX_TEXT = 30_000
MAX_MEMBERS = 100
_WORD: dict[Kind, str] = {
    "updated": "UPDATE", "escalated": "ESCALATED", "reminder": "STILL OPEN", "acknowledged": "ACKNOWLEDGED",
    "resolved": "RESOLVED", "test": "TEST",
}  # fmt: skip


def notification(
    intent: Intent, now: float, facts: RunFacts | None = None, public_url: str = "", link_key: bytes | None = None
) -> Notification:
    """The message for an intent. `public_url` is where people reach the daemon; without it there are no links.
    `link_key` signs the one that acknowledges."""
    incident = intent.incident
    links = _links(intent, public_url, link_key)
    first = title(intent, facts)
    return Notification(
        kind=intent.kind,
        dedup_key=intent.dedup_key,
        at=now,
        incident=incident,
        severity=incident.severity,
        title=first,
        text=page(intent, now, facts, links),
        run=incident.run,
        links=links,
        members=tuple(_member(member) for member in intent.members[:MAX_MEMBERS]),
        member_count=len(intent.members),
        picture_base64="" if intent.repeated else _picture(intent.kind, facts),
        face=intent.face,
        repeated=intent.repeated,
    )


def bare(intent: Intent) -> Intent:
    """The same without what can be anything: for a page that could not be written otherwise."""
    return replace(
        intent,
        incident=replace(intent.incident, evidence={}, hint="", since_at=None),
        members=tuple(replace(one, evidence={}, hint="", since_at=None) for one in intent.members),
    )


def _picture(kind: Kind, facts: RunFacts | None) -> str:
    if facts is None or facts.history is None or kind not in ("opened", "escalated", "reminder"):
        return ""
    image = draw(facts.history, facts.step_instants)
    return base64.b64encode(image).decode() if image is not None else ""


def title(intent: Intent, facts: RunFacts | None = None) -> str:
    incident = intent.incident
    word = _WORD.get(intent.kind) or incident.severity.label.upper()
    where = one_line(incident.run or incident.subject.node or "watchdog", 120)
    if intent.members:
        what = f"{len(intent.members)} incidents, first {incident.signature}: {_nodes(intent.members)}"
    elif intent.kind == "resolved":
        what = f"{incident.signature}: {incident.resolve_reason or intent.reason}"
    else:
        what = f"{incident.signature}: {incident.summary}"
    since = "" if incident.notice or intent.kind in ("resolved", "test") else f", since {instant(incident.began_at)}"
    return one_line(f"[{word}] {where}: {what}{since}{_cost(intent, facts)}", MAX_TITLE)


def page(intent: Intent, now: float, facts: RunFacts | None = None, links: Sequence[Link] = ()) -> str:
    """The whole page, at most MAX_TEXT characters."""
    incident = intent.incident
    blocks = [[title(intent, facts)]]
    if intent.kind == "resolved":
        blocks.append([f"It was: {incident.summary}"])
    if intent.kind != "opened":
        blocks.append([f"Why this message: {intent.reason}"])
    if intent.members:
        blocks.append(_list("Incidents:", [_member(member) for member in intent.members], MAX_MEMBERS))
    elif evidence := evidence_lines(incident.evidence):
        blocks.append(["Evidence:", *evidence])
    if facts is not None:
        blocks += _run_blocks(intent.kind, facts, now, incident.evidence.get("odd"))
    if intent.kind != "resolved":
        blocks.append(_what_to_do(incident, links))
    if facts is not None and facts.log_tail and intent.kind != "resolved":
        blocks.append(["Last lines of the log:", *(f"  | {one_line(line, 200)}" for line in facts.log_tail[-8:])])
    return clean("\n\n".join("\n".join(block) for block in blocks if block), MAX_TEXT)


def _run_blocks(kind: Kind, facts: RunFacts, now: float, odd: object) -> list[list[str]]:
    blocks = [["Run:", *_progress(facts, now)]]
    if facts.bars and kind != "resolved":
        blocks.append(["GPUs (bar: power against the limit):", *bar_lines(facts.bars, odd)])
    return blocks


def _progress(facts: RunFacts, now: float) -> list[str]:
    lines = []
    if facts.phase:
        attempt = f" of attempt {facts.attempt}" if facts.attempt is not None else ""
        lines.append(f"  phase: {facts.phase}{attempt}, {facts.gpu_count} GPUs")
    if facts.last_step is not None:
        when = "" if facts.last_step_at is None else f", {spoken(now - facts.last_step_at)} ago"
        lines.append(f"  last step: {facts.last_step}{when}")
        if facts.total_steps is not None and facts.total_steps >= facts.last_step:
            to_go = facts.total_steps - facts.last_step
            eta = "" if facts.step_seconds is None else f", {spoken(to_go * facts.step_seconds)} at its usual pace"
            lines.append(f"  to go: {to_go} of {facts.total_steps} steps{eta}")
    if facts.last_checkpoint_at is not None or facts.last_checkpoint_step is not None:
        at = "" if facts.last_checkpoint_at is None else f", {spoken(now - facts.last_checkpoint_at)} ago"
        step, last = facts.last_checkpoint_step, facts.last_step
        lost = f": {last - step} steps would be lost" if step is not None and last is not None and last >= step else ""
        lines.append(f"  last save: {'step not known' if step is None else f'step {step}'}{at}{lost}")
    if facts.ends_by_at is not None:
        lines.append(f"  time left in the allocation: {spoken(facts.ends_by_at - now)}")
    return lines


def _what_to_do(incident: Incident, links: Sequence[Link]) -> list[str]:
    key = shlex.quote(one_line(incident.key))
    lines = ["What to do:"]
    lines += [f"  {line}" for line in clean(incident.hint, 2_000).splitlines() if line.strip()]
    lines += [f"  {link.name}: {link.url}" for link in links]
    return [*lines, f"  runwatch incidents show {key}", f"  runwatch incidents ack {key}"]


def _links(intent: Intent, public_url: str, link_key: bytes | None) -> tuple[Link, ...]:
    if not public_url:
        return ()
    incident, base = intent.incident, public_url.rstrip("/")
    links = [
        Link("runbook", f"{base}/docs/{quote(incident.signature, safe='')}"),
        Link("incident", f"{base}/incidents/{quote(incident.key, safe='')}"),
    ]
    if link_key is not None and incident.state == "open" and incident.acknowledged_at is None:
        links.append(Link("acknowledge", ack_url(base, link_key, incident.key, incident.id)))
    return tuple(links)


def _cost(intent: Intent, facts: RunFacts | None) -> str:
    cost = facts.hourly_cost if facts is not None else None
    if facts is None or cost is None or intent.kind in ("resolved", "test") or intent.incident.notice:
        return ""
    return f", {cost:,.2f} {one_line(facts.currency, 8)} an hour"


def _member(incident: Incident) -> str:
    return one_line(f"{incident.severity.label} {incident.key}: {incident.summary}", 300)


def _nodes(members: Sequence[Incident]) -> str:
    names = list(dict.fromkeys(member.subject.node or member.run or "?" for member in members))
    shown = ", ".join(names[:10])
    return cut(f"{shown}, ... ({len(names)} in all)" if len(names) > 10 else shown, 300)


def _list(head: str, lines: list[str], limit: int) -> list[str]:
    more = [f"  ... {limit} of {len(lines)} shown"] if len(lines) > limit else []
    return [head, *(f"  {line}" for line in lines[:limit]), *more]
