"""One incident as Markdown, for whoever writes down what happened: timeline, evidence, who was told. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from alerts._duration import instant, spoken
from alerts._evidence import evidence_rows
from alerts._text import one_line
from alerts.incidents import Incident
from alerts.outbox import Delivery

MAX_GPUS = 64
STOOD = ("phase", "attempt", "last_step", "total_steps")
WORDS = {"suspected": "first suspected", "opened": "opened", "updated": "changed", "resolved": "resolved"}


def postmortem(
    incident: Incident, transitions: Sequence[Mapping[str, Any]], deliveries: Iterable[Delivery], now: float
) -> str:
    """`transitions`: those of its key as the store gives them; what belongs to another opening of it is left out.
    `deliveries`: what was sent about it."""
    own = [one for one in transitions if one.get("id") in (None, incident.id)]
    sent = sorted(deliveries, key=lambda delivery: delivery.created_at)
    stood = [(name.replace("_", " "), str(incident.evidence[name])) for name in STOOD if name in incident.evidence]
    evidence = [(_text(name), _text(value)) for name, value in [*stood, *evidence_rows(incident.evidence)]]
    parts = [
        f"# {_text(incident.summary)}",
        _head(incident, now),
        _section("Timeline", _table(("when (UTC)", "what", "why"), _timeline(incident, own))),
        _section("Who was told", _table(("when (UTC)", "channel", "message", "result"), map(_told, sent))),
        _section("Evidence", _table(("what", "value"), evidence)),
        _section("GPUs", _gpus(incident)),
        _section("End of the log", _log(incident)),
        _section("Advice given", _text(incident.hint)),
        _section("Links", _links(sent)),
        "## What was done\n\n_To be written._\n\n## Why it happened\n\n_To be written._",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(incident: Incident, now: float) -> str:
    end = incident.resolved_at if incident.resolved_at is not None else now
    rows = [
        ("key", _text(incident.key)),
        ("signature", _text(incident.signature)),
        ("severity", incident.severity.label),
        ("run", _text(incident.run or "none")),
        ("node", _text(incident.subject.node or "the run as a whole")),
        ("began", instant(incident.began_at)),
        ("opened", instant(incident.opened_at) if incident.opened_at is not None else "never"),
        ("resolved", instant(incident.resolved_at) if incident.resolved_at is not None else "not yet"),
        ("lasted", spoken(max(0.0, end - incident.began_at))),
        ("acknowledged by", _text(incident.acknowledged_by or "nobody")),
    ]
    if incident.resolve_reason:
        rows.append(("ended by", _text(incident.resolve_reason)))
    return _table(("", ""), rows)


def _timeline(incident: Incident, transitions: Iterable[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    rows = [(incident.began_at, "it began", "as far as is known")]
    if (last := incident.evidence.get("last_progress_at")) is not None and isinstance(last, int | float):
        rows.append((float(last), "last progress of the run", f"step {incident.evidence.get('last_step', 'unknown')}"))
    for one in transitions:
        what = f"{WORDS.get(str(one['event']), str(one['event']))} as {one.get('severity', '')}"
        rows.append((float(one["at"]), what, str(one.get("reason") or one.get("summary") or "")))
    if incident.acknowledged_at is not None:
        rows.append((incident.acknowledged_at, "acknowledged", f"by {incident.acknowledged_by or 'somebody'}"))
    return [(instant(at), _text(what), _text(why)) for at, what, why in sorted(rows, key=lambda row: row[0])]


def _told(delivery: Delivery) -> tuple[str, str, str, str]:
    end = delivery.finished_at if delivery.finished_at is not None else delivery.created_at
    result = delivery.state + (f" after {delivery.attempts} attempts" if delivery.attempts > 1 else "")
    if delivery.error:
        result += f": {delivery.error}"
    return instant(end), _text(delivery.channel), _text(delivery.notification.kind), _text(result)


def _gpus(incident: Incident) -> str:
    gpus = incident.evidence.get("gpus")
    rows = [gpu for gpu in gpus if isinstance(gpu, Mapping)][:MAX_GPUS] if isinstance(gpus, list | tuple) else []
    if not rows:
        return ""
    return _table(
        ("node", "GPU", "power", "learnt at work", "utilization", ""),
        (
            (
                _text(str(gpu.get("node", ""))), _text(str(gpu.get("index", ""))), _number(gpu.get("power_watts"), "W"),
                _number(gpu.get("learnt_power_watts"), "W"), _number(gpu.get("utilization_ratio"), "%", 100),
                "**differs**" if _differs(gpu, incident.evidence.get("odd")) else "",
            )
            for gpu in rows
        ),
    )  # fmt: skip


def _differs(gpu: Mapping[str, Any], odd: object) -> bool:
    if not isinstance(odd, Mapping) or odd.get("node") != gpu.get("node"):
        return False
    return odd.get("gpu_index") in (None, gpu.get("index"))


def _links(sent: Iterable[Delivery]) -> str:
    """As the pages gave them; not the one that acknowledges, which is for whoever was paged."""
    links = {link.name: link.url for one in sent for link in one.notification.links if link.name != "acknowledge"}
    return "\n".join(f"* {_text(name)}: <{url}>" for name, url in links.items())


def _log(incident: Incident) -> str:
    tail = incident.evidence.get("log_tail")
    lines = [one_line(str(line), 500) for line in tail] if isinstance(tail, list | tuple) else []
    return "\n".join(f"    {line}" for line in lines)  # indented: nothing in it can end the block


def _section(title: str, body: str) -> str:
    return f"## {title}\n\n{body}" if body else ""


def _table(names: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(names)} |", f"|{'---|' * len(names)}", *lines])


def _text(text: str) -> str:
    """One line that is no markup, whatever a log has put into it."""
    plain = one_line(text, 600)
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]<>#|!" else letter for letter in plain)


def _number(value: Any, unit: str, times: float = 1.0) -> str:
    return f"{times * value:.0f} {unit}" if isinstance(value, int | float) else "not known"
