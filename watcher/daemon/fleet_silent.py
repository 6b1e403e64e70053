"""`fleet_silent`: a source that tells which nodes belong to which run does not answer. Pure."""

from __future__ import annotations

from alerts.incidents import Judged
from detectors.verdict import Finding, Severity, Subject, firing
from watcher.daemon.lateness import WATCHDOG

POLLS = 5  # that failed one after the other


def fleet_silent(source: str, failures: int, error: str | None) -> Judged:
    """Runs are watched on with the nodes that are known; that nothing is told is never taken for "no job"."""
    findings = []
    if failures >= POLLS:
        findings.append(
            Finding(
                signature="fleet_silent",
                family=f"fleet_silent.{source}",
                subject=Subject(),
                severity=Severity.WARNING,
                summary=f"{source} has told nothing for {failures} polls: {error}"[:300],
                evidence={"source": source, "failures_count": failures, "error": error},
                hint="New runs, requeues and other nodes are not seen until it answers; known nodes are watched on.",
            )
        )
    family = f"fleet_silent.{source}"
    return Judged(signature=family, family=family, run=WATCHDOG, verdict=firing(findings))
