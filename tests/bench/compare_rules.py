"""Today's rules of thumb and runwatch on the same replayed runs: what each catches, how fast, and whom it wakes.

python tests/bench/compare_rules.py SCENARIOS

SCENARIOS is a folder of folders with NODE.csv.gz, *.log.gz and truth.json (see `runwatch replay --help` for the first
two). An alarm counts once while it lasts. Caught: an alarm between the onset and an hour after it.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterator
from datetime import UTC
from itertools import pairwise
from pathlib import Path
from typing import Any

from detectors.registry import load_plugins
from watcher.daemon.evaluate import build_detectors
from watcher.daemon.fold import RunFold, RunSettings
from watcher.daemon.pipeline import WatchedRun
from watcher.replay.feed import NodeFile, Timed, read_log
from watcher.replay.run import play
from watcher.replay.setup import watched_run

HANGS = {"low_power_deadlock", "busy_stall", "idle_stall", "startup_stall"}
INTERVAL = 10.0
HOUR = 3600.0


class Scenario:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.truth: dict[str, Any] = json.loads((folder / "truth.json").read_text())
        self.nodes = [NodeFile(f.name.split(".csv")[0], f, UTC) for f in sorted(folder.glob("*.csv.gz"))]
        names = {node.node for node in self.nodes}
        self.lines: list[Timed] = []
        for file in sorted(folder.glob("*.log.gz")):
            owner = file.name.split(".log")[0]
            self.lines += read_log(file, owner if owner in names else None, self.truth["starts_at"])
        self.lines.sort(key=lambda line: line.at)

    @property
    def hours(self) -> float:
        return (self.truth["ends_at"] - self.truth["starts_at"]) / HOUR

    def ticks(self) -> Iterator[tuple[float, list[Any]]]:
        now = self.truth["starts_at"] + INTERVAL
        while now <= self.truth["ends_at"]:
            answers = [node.answer(now, INTERVAL).snapshot for node in self.nodes]
            yield now, [gpu for snapshot in answers if snapshot is not None for gpu in snapshot.gpus]
            now += INTERVAL


def lasting(condition: Callable[[Any], bool], seconds: float) -> Callable[[Scenario], list[float]]:
    """Alarm when every GPU that answers fulfils a condition for this long."""

    def rule(scenario: Scenario) -> list[float]:
        since, on, alarms = None, False, []
        for now, gpus in scenario.ticks():
            known = [gpu for gpu in gpus if gpu.utilization_ratio is not None]
            if known and all(condition(gpu) for gpu in known):
                since = now if since is None else since
                if not on and now - since >= seconds:
                    on = True
                    alarms.append(now)
            else:
                since, on = None, False
        return alarms

    return rule


def silent_log(seconds: float) -> Callable[[Scenario], list[float]]:
    def rule(scenario: Scenario) -> list[float]:
        times = [line.at for line in scenario.lines] + [scenario.truth["ends_at"]]
        return [a + seconds for a, b in pairwise(times) if b - a > seconds]

    return rule


def runwatch(scenario: Scenario) -> list[float]:
    """When `runwatch replay` would page: an incident opens as critical, or becomes it."""
    names = [node.node for node in scenario.nodes]
    config = scenario.truth.get("run_config")
    if config:
        file = Path("/tmp/compare-rules.json")
        file.write_text(json.dumps(config))
        run, _ = watched_run(scenario.truth["name"], names, file, False)
    else:
        fold = RunFold(RunSettings(name=scenario.truth["name"], nodes=tuple(names)))
        run = WatchedRun(fold, build_detectors(load_plugins()))
    alarms, paged = [], set()
    for t in play(run, scenario.nodes, scenario.lines):
        if t.event == "resolved":
            paged.discard(t.incident.key)
        elif t.event in ("opened", "updated") and t.incident.severity.label == "critical":
            alarms += [] if t.incident.key in paged else [t.at]
            paged.add(t.incident.key)
    return alarms


RULES: dict[str, Callable[[Scenario], list[float]]] = {
    "utilization 0 % for 5 min": lasting(lambda gpu: gpu.utilization_ratio == 0, 300),
    "no new log line for 10 min": silent_log(600),
    "100 % utilization below 30 % power, 5 min": lasting(
        lambda gpu: gpu.utilization_ratio >= 0.95 and (gpu.power_watts or 1e9) < 0.3 * (gpu.power_limit_watts or 0), 300
    ),
    "the same for 1 min": lasting(
        lambda gpu: gpu.utilization_ratio >= 0.95 and (gpu.power_watts or 1e9) < 0.3 * (gpu.power_limit_watts or 0), 60
    ),
    "runwatch": runwatch,
}


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("../shared/data/scenarios")
    scenarios = [Scenario(file.parent) for file in sorted(folder.glob("*/truth.json"))]
    hung = [(s, w) for s in scenarios for w in s.truth["expect"] if w["signature"] in HANGS]
    healthy = [s for s in scenarios if s.truth["healthy"]]
    hours = sum(s.hours for s in healthy)
    print(f"{len(hung)} hangs, {len(healthy)} healthy runs of {hours:.1f} h\n")
    print("| rule | hangs caught | median latency | false pages per healthy hour | before the onset |")
    print("|---|---|---|---|---|")
    for name, rule in RULES.items():
        alarms = {s.truth["name"]: rule(s) for s in scenarios}
        latencies, early = [], 0
        for s, want in hung:
            hits = [a - want["onset_at"] for a in alarms[s.truth["name"]]]
            early += sum(h < -5 for h in hits)
            first = min((h for h in hits if -5 <= h <= HOUR), default=None)
            latencies += [first] if first is not None else []
        false = sum(len(alarms[s.truth["name"]]) for s in healthy)
        middle = f"{statistics.median(latencies):.0f} s" if latencies else "-"
        print(f"| {name} | {len(latencies)} of {len(hung)} | {middle} | {false / hours:.2f} ({false}) | {early} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
