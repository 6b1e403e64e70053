"""What the daemon knows now, gathered for the templates. Reads only; everything bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from alerts.incidents import Incident
from alerts.outbox import Delivery, JournalError
from detectors.frame import Frame
from watcher.daemon.page import incident as words
from watcher.daemon.page.headline import headline
from watcher.daemon.page.nodes import node_words
from watcher.daemon.page.runbook import what_to_do
from watcher.daemon.page.runs import Limits, limits_of, run_words
from watcher.daemon.views import run_view

if TYPE_CHECKING:
    from watcher.daemon.app import Daemon

SHOWN_INCIDENTS = 50
RECENT = 20
SHOWN_STRIPS = 12  # runs whose GPUs are drawn on the first page; all have a page of their own
POLL_SECONDS = (1.0, 5.0)
LATE_CYCLES = 4
TONES = {"critical": 0, "warning": 1, "notice": 2, "good": 3, "quiet": 4}


class Archive(Protocol):
    """The store as the page sees it. Every method may raise JournalError."""

    def history(self, key: str | None = None, limit: int = 100) -> list[Incident]: ...

    def transitions(self, key: str | None = None, limit: int = 1000) -> list[dict[str, Any]]: ...

    def told_of(self, incident: Incident, limit: int = 200) -> list[Delivery]: ...


class Scene:
    def __init__(self, daemon: Daemon, archive: Archive | None) -> None:
        self._daemon, self._archive = daemon, archive

    def now(self) -> dict[str, Any]:
        """On every page: as of when it is, and how often to look again. Changes with each cycle, not by itself."""
        daemon, health = self._daemon, self._daemon.health
        real_second = daemon.clock.real_seconds(1.0)
        least, most = POLL_SECONDS
        return {
            "now": self._now,
            "rate": round(1 / real_second, 3) if real_second else 1.0,
            "poll_seconds": min(most, max(least, daemon.clock.real_seconds(daemon.interval_seconds) / 2)),
            "late_seconds": LATE_CYCLES * daemon.interval_seconds + 20,
            "trouble": health.error or self._daemon.desk.store_error or "",
        }

    @property
    def _now(self) -> float:
        health = self._daemon.health
        return health.last_tick_at if health.last_tick_at is not None else health.started_at

    def overview(self) -> dict[str, Any]:
        incidents, frames = self._incidents(), self._frames()
        told = (run_words(frame, incidents, self._limits(frame.run)) for frame in frames)
        runs = sorted(told, key=lambda run: (TONES[run.tone], run.name))
        live = _by_weight([one for one in incidents if one.state == "open"])
        lead = next((one for one in live[:1] if not one.shadow), None)
        recent, problem = self._recent()
        waiting = sorted({run.fold.settings.name for run in self._daemon.runs} - {frame.run for frame in frames})
        strikes = node_words(self._strikes(), frames, self._now)
        return {
            "headline": headline(runs, live, waiting),
            "runs": runs,
            "drawn": SHOWN_STRIPS,
            "waiting": waiting,
            "lead": lead,
            "open": live[bool(lead) :][:SHOWN_INCIDENTS],
            "more_count": max(0, len(live) - bool(lead) - SHOWN_INCIDENTS),
            "suspects": _by_weight([one for one in incidents if one.state == "suspect"])[:SHOWN_INCIDENTS],
            "recent": recent,
            "problem": problem,
            "struck": [node for node in strikes if node.counted],
            "words": words,
            "snoozes": words.SNOOZES,
        }

    def _limits(self, run: str) -> Limits:
        watched = next((one for one in self._daemon.runs if one.fold.settings.name == run), None)
        return limits_of(watched.detectors if watched is not None else ())

    def run(self, name: str) -> dict[str, Any] | None:
        frame = self._daemon.frames.get(name)
        if frame is None:
            return None
        incidents = self._incidents()
        recent, problem = self._recent(name)
        return {
            "run": run_words(frame, incidents, self._limits(name)),
            "view": run_view(frame, incidents),
            "frame": frame,
            "recent": recent,
            "problem": problem,
            "words": words,
            "snoozes": words.SNOOZES,
        }

    def expects(self, name: str) -> bool:
        """Whether a run of that name may yet be looked at: it is watched, or nothing was looked at so far."""
        watched = {run.fold.settings.name for run in self._daemon.runs}
        return name in watched or self._daemon.health.ticks_count == 0

    def incidents(self) -> dict[str, Any]:
        recent, problem = self._recent(limit=200)
        live = _by_weight([one for one in self._incidents() if one.state != "resolved"])
        return {"live": live[:200], "recent": recent, "problem": problem, "words": words}

    def incident(self, key: str) -> dict[str, Any] | None:
        found, problem, steps, told = self._daemon.desk.incidents.get(key), "", [], []
        if self._archive is not None:
            try:
                found = found or next(iter(self._archive.history(key, 1)), None)
                steps = self._archive.transitions(key, 50)
                told = self._archive.told_of(found, 30) if found is not None else []
            except JournalError as error:
                problem = str(error)
        if found is None:
            return None
        bars, count = words.gpus(found)
        return {
            "incident": found,
            "what_to_do": what_to_do(found.signature),
            "gpus": bars,
            "gpus_count": count,
            "steps": steps[::-1],
            "told": told,
            "problem": problem,
            "words": words,
            "snoozes": words.SNOOZES,
        }

    def nodes(self) -> dict[str, Any]:
        nodes = node_words(self._strikes(), self._frames(), self._now)
        return {"nodes": nodes[:200], "count": len(nodes), "exclude": [node.name for node in nodes if node.exclude]}

    # -- inside --------------------------------------------------------------------------------------------------

    def _frames(self) -> list[Frame]:
        return list(dict(self._daemon.frames).values())

    def _incidents(self) -> Sequence[Incident]:
        return list(self._daemon.desk.incidents.values())

    def _strikes(self) -> Sequence[Any]:
        return self._daemon.ledger.all()

    def _recent(self, run: str | None = None, limit: int = RECENT) -> tuple[list[Incident], str]:
        """What ended lately, the newest first; and why that cannot be told."""
        if self._archive is None:
            past = list(self._daemon.desk.incidents.values())
        else:
            try:
                past = self._archive.history(None, 400)
            except JournalError as error:
                return [], str(error)
        over = [one for one in past if one.state == "resolved" and one.opens and run in (None, one.run)]
        return over[:limit], ""


def _by_weight(incidents: Sequence[Incident]) -> list[Incident]:
    """The worst first; of equals those that nobody has, then runs that do not move, then the oldest."""

    def weight(one: Incident) -> tuple[bool, int, bool, bool, float]:
        still = one.family in ("stall", "crash")
        return one.shadow, -int(one.severity), one.acknowledged_at is not None, not still, one.suspect_since_at

    return sorted(incidents, key=weight)
