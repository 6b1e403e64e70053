"""Runs the detectors over one frame. One that raises is a finding about the watchdog, never the end of the loop."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alerts.incidents import Judged, Mode
from detectors.frame import Frame
from detectors.registry import Detector, Plugin
from detectors.verdict import CLEAR, Finding, Firing, Severity, Subject, Unknown, Verdict, firing

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Active:
    """One detector as a run uses it."""

    plugin: Plugin
    detector: Detector
    mode: Mode = "active"


def build_detectors(
    plugins: Mapping[str, Plugin],
    configs: Mapping[str, Any] | None = None,
    modes: Mapping[str, str] | None = None,
) -> tuple[Active, ...]:
    """All detectors that are not off. `configs`: name -> the plug-in's config, defaults where it is absent."""
    configs, modes = configs or {}, modes or {}
    built = []
    for name, plugin in plugins.items():
        mode = modes.get(name, "active")
        if mode != "off":
            config = configs.get(name)
            detector = plugin.build(plugin.config() if config is None else config)
            built.append(Active(plugin, detector, "shadow" if mode == "shadow" else "active"))
    return tuple(built)


class Evaluator:
    """Counts failures per detector; a detector that fails again is logged once."""

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()

    def judge(self, frame: Frame, detectors: Sequence[Active]) -> list[Judged]:
        judged = []
        broken: list[Finding] = []
        for active in detectors:
            name = active.plugin.name
            try:
                verdict = active.detector.check(frame)
            except Exception as error:  # whatever a detector raises must not stop the others
                if not self.failures[name]:
                    log.exception("detector failed detector=%s run=%s", name, frame.run)
                self.failures[name] += 1
                verdict = Unknown(f"{name} failed: {error!r}"[:300])
                broken.append(_broken(frame, name, error))
            judged.append(_judged(frame, name, active.plugin.group, verdict, active.mode))
        watchdog: Verdict = Firing(tuple(broken)) if broken else CLEAR
        judged.append(_judged(frame, "detector_failed", "detector_failed", watchdog, "active"))
        return judged


def _judged(frame: Frame, name: str, family: str, verdict: Verdict, mode: Mode) -> Judged:
    return Judged(
        signature=name, family=family, run=frame.run, verdict=verdict, mode=mode, attempt=frame.attempt.number
    )


def _broken(frame: Frame, name: str, error: Exception) -> Finding:
    return Finding(
        signature="detector_failed",
        subject=Subject(run=frame.run),
        severity=Severity.WARNING,
        summary=f"Detector {name} failed on run {frame.run} and sees nothing: {error!r}"[:300],
        evidence={"detector": name},
        hint="The daemon's log has the traceback; the other detectors go on.",
    )


def watching(run: str, error: str | None) -> Judged:
    """`watching_failed`: what came in about a run could not be taken in or judged. None: all went well."""
    findings = []
    if error is not None:
        findings.append(
            Finding(
                signature="watching_failed",
                subject=Subject(run=run),
                severity=Severity.WARNING,
                summary=f"Run {run} is not fully watched: {error}"[:300],
                evidence={"error": error},
                hint="This is a fault of the watchdog; its log has the traceback. Other runs are watched on.",
            )
        )
    return Judged(signature="watching_failed", family="watching_failed", run=run, verdict=firing(findings))
