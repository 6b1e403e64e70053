"""The run live on a terminal: where it stands, each GPU as a bar, what is suspected or open."""

from __future__ import annotations

import numpy as np
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from detectors.frame import Frame
from watcher.cli.status import spoken
from watcher.demo.stage import Show

STYLES = {"critical": "bold red", "warning": "yellow", "info": "green"}
BAR = 22


def draw(show: Show) -> RenderableType:
    frame = next(iter(show.daemon.frames.values()), None)
    if frame is None:
        return Text("asking the agents ...")
    return Group(_head(show, frame), _gpus(frame), _incidents(show))


def line(show: Show) -> str:
    """The same in one line, where there is no terminal."""
    frame = next(iter(show.daemon.frames.values()))
    power = frame.history.power_watts[-1]
    busy = frame.history.utilization_ratio[-1]
    step = frame.progress.last_step if frame.progress.last_step is not None else "-"
    return (
        f"[{_clock(show.t)}] {frame.phase.name:11} step {step}  power {np.nanmean(power):4.0f} W  "
        f"utilization {np.nanmean(busy):4.0%}"
    )


def _head(show: Show, frame: Frame) -> RenderableType:
    progress = frame.progress
    table = Table.grid(padding=(0, 2))
    step = "none yet" if progress.last_step is None else f"{progress.last_step} of {show.fleet.script.total_steps}"
    since = "" if progress.last_progress_at is None else f"progress {spoken(frame.now - progress.last_progress_at)} ago"
    table.add_row("time", f"{_clock(show.t)}  ({show.clock.scale:.0f} times faster than real)")
    table.add_row("step", f"{step}   {since}")
    table.add_row("phase", f"{frame.phase.name}, attempt {frame.attempt.number}")
    learnt = frame.learnt.power
    gap = frame.learnt.gaps.get("training")
    band = f"works at {learnt.run_median_watts:.0f} W a GPU" if learnt is not None else "nothing yet"
    table.add_row("learnt", band + (f", longest gap {gap.longest_seconds:.0f} s" if gap is not None else ""))
    return Panel(table, title=frame.run, title_align="left")


def _gpus(frame: Frame) -> RenderableType:
    nodes: dict[str, Table] = {}
    latest = frame.history.power_watts[-1], frame.history.utilization_ratio[-1]
    for place, ref in enumerate(frame.gpus):
        table = nodes.setdefault(ref.node, Table.grid(padding=(0, 1)))
        watts, busy = float(latest[0][place]), float(latest[1][place])
        limit = float(frame.history.power_limit_watts[place])
        if np.isnan(watts):
            table.add_row(f"gpu {ref.index}", Text("no reading", style="dim"))
            continue
        style = "green" if watts > 0.5 * limit else "red" if busy > 0.9 else "bright_black"
        bar = ProgressBar(total=limit, completed=watts, width=BAR, complete_style=style, finished_style=style)
        table.add_row(f"gpu {ref.index}", bar, f"{watts:4.0f} W", f"{busy:4.0%}")
    grid = Table.grid(padding=(0, 1))
    grid.add_row(*(Panel(table, title=node, title_align="left") for node, table in nodes.items()))
    return grid


def _incidents(show: Show) -> RenderableType:
    live = [i for i in show.daemon.desk.incidents.values() if i.state != "resolved"]
    if not live:
        return Text("no incident", style="dim")
    texts = []
    for incident in live:
        style = STYLES[incident.severity.label] if incident.state == "open" else "yellow"
        texts.append(Text(f"{incident.state.upper()}  {incident.signature}  {incident.summary}", style=style))
    return Group(*texts)


def _clock(t: float) -> str:
    return f"{int(t) // 60:02d}:{int(t) % 60:02d}"
