"""What a backtest found: incidents and pages a day, by signature, and how much there was to see. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from alerts.incidents import Transition
from detectors.verdict import Severity
from watcher.backtest.play import Coverage

DAY = 86_400.0


@dataclass(slots=True)
class Summary:
    """A page is an incident that opened critical and is not in shadow mode. `trouble`: those of at least a warning."""

    opened: Counter[str] = field(default_factory=Counter)
    pages: Counter[str] = field(default_factory=Counter)
    trouble: int = 0

    def add(self, transition: Transition) -> None:
        incident = transition.incident
        if transition.event == "opened":
            self.opened[incident.signature] += 1
            self.trouble += incident.severity >= Severity.WARNING
            self.pages[incident.signature] += incident.severity >= Severity.CRITICAL and not incident.shadow

    def to_json(self, first: float, last: float, coverage: Coverage) -> dict[str, Any]:
        days = max(last - first, 1.0) / DAY
        return {
            "event": "summary",
            "from_at": first,
            "to_at": last,
            "opened": dict(self.opened.most_common()),
            "pages": {name: count for name, count in self.pages.most_common() if count},
            "pages_per_day": round(self.pages.total() / days, 3),
            "seen_ratio": round(coverage.ratio, 4),
            "steps": dict(coverage.steps),
        }
