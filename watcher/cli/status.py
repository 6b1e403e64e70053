"""`runwatch status`: what is watched, where each run stands, what was learnt, what is open."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from watcher.cli._api import DaemonApi, Refused, add_daemon_arguments
from watcher.cli._command import Command
from watcher.cli.silence import silence_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_daemon_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a run")


def run(args: argparse.Namespace) -> int:
    api = DaemonApi(args)
    try:
        answer, live = api.get("/api/runs"), api.get("/api/incidents")
        silences = api.get("/api/silences")["silences"]
    except Refused as error:
        print(f"runwatch status: {error}", file=sys.stderr)
        return 1
    incidents = [i for i in live["incidents"] if i["state"] == "open"]
    if args.json:
        for item in answer["runs"]:
            print(json.dumps(item))
    else:
        _print(answer, incidents)
        for one in silences:
            if one["active"]:
                print(f"silent    {silence_line(one)}")
    return 1 if any(i["severity"] == "critical" and not i["shadow"] for i in incidents) else 0


def _print(answer: dict[str, Any], incidents: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not answer["runs"]:
        console.print("no run is watched: add one under runs: in the daemon's file")
    for item in answer["runs"]:
        table = Table(show_header=False, box=None, pad_edge=False, title=None)
        table.add_column(style="dim")
        table.add_column()
        for name, text in run_lines(item, answer["now"]):
            table.add_row(name, text)
        console.print(f"[bold]{item['run']}[/bold]  {item['state']}", highlight=False)
        console.print(table, highlight=False, markup=False)
    for incident in incidents:
        age = spoken(answer["now"] - (incident["opened_at"] or answer["now"]))
        console.print(f"{incident['severity']:8}  {incident['key']}  open for {age}", highlight=False, markup=False)
        console.print(f"          {incident['summary']}", highlight=False, markup=False)
        if incident["shadow"]:
            console.print("          shadow: recorded, never sent", highlight=False)


def run_lines(item: dict[str, Any], now: float) -> list[tuple[str, str]]:
    """Rows of (name, text) for one run of /api/runs."""
    watched, learnt = item["watched"], item["learnt"]
    step = "none yet" if item["step"] is None else f"{item['step']}"
    if item["total_steps"]:
        step += f" of {item['total_steps']}"
    if item["last_progress_at"] is not None:
        step += f", progress {spoken(now - item['last_progress_at'])} ago"
    lines = [("step", f"{step}, attempt {item['attempt']}, in {item['phase']}")]
    if item.get("job") is not None:
        lines.append(("job", _job(item["job"], now)))
    if item["throughput"] is not None:
        lines.append(("rate", f"{item['throughput']:g} {str(item['throughput_unit']).replace('_', ' ')}"))
    lines.append(
        (
            "watched",
            f"{watched['nodes_answering']} of {watched['nodes']} nodes, "
            f"power on {watched['gpus_power_known']} of {watched['gpus']} GPUs, "
            f"{'steps are read' if watched['progress_source'] else 'NO STEPS READ YET: only power is watched'}",
        )
    )
    lines += [("node", f"{n['node']}: {n['error']}") for n in item["nodes"] if n["reachable"] is False]
    lines += [("log", f"{log['path']}: {log['error']}") for log in watched["logs"] if log["error"]]
    if learnt["power_watts"] is not None:
        power = f"works at {learnt['power_watts']:.0f} W a GPU, +-{learnt['power_spread_watts']:.0f} W"
        lines.append(("learnt", f"{power} ({learnt['origin']})"))
    for phase, gap in learnt["gaps_seconds"].items():
        lines.append(
            ("learnt", f"longest gap in {phase} {gap['longest']:.0f} s of {gap['count']} ({learnt['origin']})")
        )
    return lines


def _job(job: dict[str, Any], now: float) -> str:
    """What the scheduler says, in a line."""
    if job["state"] == "none":
        return "the scheduler lists no job of this run"
    parts = [f"{job['id']} {job['state'].replace('_', ' ')}" + (f" ({job['reason']})" if job["reason"] else "")]
    if job["restarts"]:
        parts.append(f"requeued {job['restarts']} times")
    if job["ends_by_at"] is not None:
        parts.append(f"time limit in {spoken(job['ends_by_at'] - now)}")
    if job["state"] == "running":
        parts.append("another waits" if job["successor_waits"] else "none waits")
    if job["held"]:
        parts.append("what waits is held")
    return ", ".join([*parts, job["note"]] if job["note"] else parts)


def spoken(seconds: float) -> str:
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} m"


COMMAND = Command("status", "what is watched, where it stands, what is open", add_arguments, run, order=22)
