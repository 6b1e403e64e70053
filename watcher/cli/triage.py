"""`runwatch triage`: reads one output of nvidia-smi and says what it looks like."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from watcher.cli._command import Command, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="output of nvidia-smi (default: stdin)")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(args: argparse.Namespace) -> int:
    from watcher.triage.judge import judge
    from watcher.triage.read import MAX_CHARACTERS, TriageError, read_snapshot

    try:
        if args.file is None:
            text = sys.stdin.read(MAX_CHARACTERS)
        else:
            with args.file.open(encoding="utf-8", errors="replace") as file:
                text = file.read(MAX_CHARACTERS)
        gpus = read_snapshot(text)
    except (OSError, TriageError) as error:
        raise UsageError(f"triage: {error}") from error
    found = judge(gpus)
    if args.json:
        states = [{"index": g.index, "state": s} for g, s in zip(gpus, found.states, strict=True)]
        answer = {"shape": found.shape, "confidence": found.confidence, "gpus": states}
        print(json.dumps({**answer, "odd": list(found.odd), "why": found.why}))
        return 0
    print(f"{found.shape} ({found.confidence} confidence)")
    for gpu, state in zip(gpus, found.states, strict=True):
        power = "power ?" if gpu.power_watts is None else f"{gpu.power_watts:.0f} W"
        limit = "" if gpu.power_limit_watts is None else f" of {gpu.power_limit_watts:.0f}"
        busy = "?" if gpu.utilization_ratio is None else f"{gpu.utilization_ratio:.0%}"
        mark = "  <- differs" if gpu.index in found.odd else ""
        print(f"  gpu {gpu.index}  {state:9} {power}{limit}, {busy}{mark}")
    print(found.why)
    return 0


COMMAND = Command("triage", "what one nvidia-smi output looks like", add_arguments, run, order=41)
