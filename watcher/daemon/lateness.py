"""`watchdog_late`: the watchdog's own cycles take longer than they may. Pure."""

from __future__ import annotations

from alerts.incidents import Judged
from detectors.verdict import Finding, Severity, Subject, firing

WATCHDOG = "watchdog"
LATE_INTERVALS = 3.0


def lateness(cycle_seconds: float, interval_seconds: float) -> Judged:
    """By how long the last cycle took."""
    findings = []
    if cycle_seconds > LATE_INTERVALS * interval_seconds:
        findings.append(
            Finding(
                signature="watchdog_late",
                subject=Subject(),
                severity=Severity.WARNING,
                summary=f"A cycle of the watchdog took {cycle_seconds:.0f} s, {interval_seconds:g} s are planned",
                evidence={"cycle_seconds": round(cycle_seconds, 1), "interval_seconds": interval_seconds},
                hint="Look at the load and the disk of the daemon's host, and at agents that time out.",
            )
        )
    return Judged(signature="watchdog_late", family="watchdog_late", run=WATCHDOG, verdict=firing(findings))
