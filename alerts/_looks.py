"""Who looked at what in one evaluation: decides whether silence about a key means health."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from alerts._incident import Incident, bounded_key
from alerts._text import clean
from detectors.verdict import Finding, Firing, Unknown, Verdict

Mode = Literal["active", "shadow"]
SHADOW_PREFIX = "shadow/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What one detector said about one run. `signature` is the detector's name."""

    signature: str
    family: str
    run: str
    verdict: Verdict
    mode: Mode = "active"
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The finding that speaks for a key in this evaluation, and every detector that fired for it."""

    finding: Finding
    run: str
    attempt: int | None
    shadow: bool
    fired_by: tuple[str, ...]


def _rank(found: tuple[Finding, Judged]) -> tuple[bool, int, int, str, str, str]:
    finding, judged = found
    opens = finding.stage == "open"
    return (opens, finding.precision, int(finding.severity), finding.signature, judged.run, finding.summary)


def found_by_key(judged: Iterable[Judged]) -> dict[str, Found]:
    """Per key the member that wins: open before suspect, then precision, then severity. Order does not matter."""
    members: dict[str, list[tuple[Finding, Judged]]] = defaultdict(list)
    for one in judged:
        if isinstance(one.verdict, Firing):
            prefix = SHADOW_PREFIX if one.mode == "shadow" else ""  # a trial never touches what is real
            for finding in one.verdict.findings:
                members[bounded_key(clean(prefix + finding.key))].append((finding, one))
    result = {}
    for key, pairs in members.items():
        finding, best = max(pairs, key=_rank)
        fired_by = tuple(sorted({judge.signature for _, judge in pairs if judge.run == best.run}))
        result[key] = Found(finding, best.run, best.attempt, best.mode == "shadow", fired_by)
    return result


class Looks:
    """Answers whether everybody who has a say about an incident looked and saw nothing."""

    def __init__(self, judged: Sequence[Judged]) -> None:
        self._by_family: dict[tuple[str, bool, str], list[Verdict]] = defaultdict(list)
        self._by_signature: dict[tuple[str, bool, str], list[Verdict]] = defaultdict(list)
        self._attempts: dict[str, int] = {}
        for one in judged:
            shadow = one.mode == "shadow"
            self._by_family[one.run, shadow, one.family].append(one.verdict)
            self._by_signature[one.run, shadow, one.signature].append(one.verdict)
            if one.attempt is not None:  # what the watchdog says of itself knows none
                self._attempts[one.run] = one.attempt

    def clear(self, incident: Incident) -> bool:
        """True only on fresh healthy data: each member of the family and each detector that had fired looked."""
        run = incident.run or ""
        verdicts = list(self._by_family.get((run, incident.shadow, incident.family), ()))
        for signature in incident.fired_by:
            said = self._by_signature.get((run, incident.shadow, signature))
            if not said:
                return False
            verdicts += said
        return bool(verdicts) and all(_looked(verdict, incident.subject.node) for verdict in verdicts)

    def attempt(self, run: str | None) -> int | None:
        return self._attempts.get(run or "")


def _looked(verdict: Verdict, node: str | None) -> bool:
    if isinstance(verdict, Unknown):
        return False
    return node is None or node not in verdict.unknown_nodes
