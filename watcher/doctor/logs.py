"""Is the step counter read, and which phases does the log tell?"""

from __future__ import annotations

from collections.abc import Iterator

from watcher.doctor._api import Check, Line, LogFound, RunScene, Scene

FEW_STEPS = 3


def look(scene: Scene, run: RunScene) -> Iterator[Line]:
    if not run.logs and run.found.source is not None and not run.found.nodes:
        return  # nobody follows the log of a run that has no node now
    if not run.logs:
        yield Line(
            "fail", "logs", "no log of this run is followed: only power can be watched",
            "name one under agent.logs on its node, or under runs[].logs with tail: daemon; or use `runwatch beat`",
        )  # fmt: skip
        return
    for found in sorted(run.logs, key=lambda log: (-log.steps, log.path))[:8]:
        yield _log(found)
    told = {name for log in run.logs for name in log.phases} | set(run.frame.learnt.durations)
    silent = [name for name in ("evaluation", "checkpoint") if name not in told]
    if told:
        yield Line("ok", "phases", f"seen so far: {', '.join(sorted(told))}")
    if silent:
        yield Line(
            "note", "phases", f"no {' and no '.join(silent)} seen yet: one without a marker is judged as training",
            "where it has no line of its own, patterns: under the log can name one (deploy/logs.md)",
        )  # fmt: skip


def _log(found: LogFound) -> Line:
    place = f"{found.node}:{found.path}" if found.node else found.path
    if found.error:
        return Line("fail", "logs", f"{place}: {found.error}")
    if not found.lines:
        return Line("warn", "logs", f"{place}: no line yet", "is it the right file? is standard output unbuffered?")
    if not found.steps:
        return Line(
            "warn", "logs", f"{place}: {found.lines} lines and no step that could be read",
            "see `runwatch parse-log`, and patterns: in deploy/logs.md",
        )  # fmt: skip
    text = f"{place}: {found.format or 'steps'}, {found.steps} steps in {found.lines} lines"
    if found.last_step is not None:
        values = [
            name for name in ("loss", "step_seconds", "total_steps") if getattr(found.last_step, name) is not None
        ]
        missing = [name for name in ("loss", "total_steps") if name not in values]
        text += f", with {', '.join(values)}" if values else ""
        text += f", without {', '.join(missing)}" if missing else ""
    return Line("ok" if found.steps >= FEW_STEPS else "note", "logs", text)


CHECK = Check(30, of_run=look)
