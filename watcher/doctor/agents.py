"""Does every node's agent answer, in one version, with a clock that agrees?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from detectors.telemetry import NodeView
from watcher.doctor._api import Check, Line, RunScene, Scene, listed

SKEW_SECONDS = 5.0
ADDRESS = re.compile(r"https?://[^\s/]+|\('[^']*', [0-9]+\)")  # of a URL, and as the system calls write it


def look(scene: Scene, run: RunScene) -> Iterator[Line]:
    nodes = run.frame.nodes
    if not nodes and run.found.source is not None:
        yield Line("note", "agents", "it has no node now whose agent could be asked")
        return
    if not nodes:
        yield Line("fail", "agents", "the run has no nodes", f"set nodes: or match: of run {run.section.name}")
        return
    silent = [node for node in nodes if not node.reachable]
    versions = Counter(node.agent_version for node in run.answering if node.agent_version)
    text = f"{len(nodes) - len(silent)} of {len(nodes)} nodes answer"
    if versions:
        text += f", version {' and '.join(sorted(versions))}"
    yield Line("fail" if len(silent) == len(nodes) else "warn" if silent else "ok", "agents", text)
    by_reason: dict[str, list[NodeView]] = {}
    for node in silent:
        alike = ADDRESS.sub("its address", node.error or "never asked").replace(repr(node.name), "it")
        by_reason.setdefault(alike, []).append(node)
    for alike, same in by_reason.items():
        reason = alike if len(same) > 1 else same[0].error or alike
        yield Line("warn", "agents", f"{listed(node.name for node in same)}: {reason}")
    if len(versions) > 1:
        odd = [n.name for n in run.answering if n.agent_version != versions.most_common(1)[0][0]]
        yield Line("note", "agents", f"another version runs on {listed(odd)}", "update them at the next chance")
    skewed = {n.name: n.skew_seconds for n in run.answering if abs(n.skew_seconds or 0.0) > SKEW_SECONDS}
    if skewed:
        worst = max(skewed, key=lambda name: abs(skewed[name] or 0.0))
        text = (
            f"{len(skewed)} differ by more than {SKEW_SECONDS:.0f} s from here, most {worst} by {skewed[worst]:+.0f} s"
        )
        yield Line("warn", "clocks", text, "let chrony or ntpd set them: times of logs are compared over nodes")
    elif run.answering:
        most = max(abs(n.skew_seconds or 0.0) for n in run.answering)
        yield Line("ok", "clocks", f"agree with this host within {most:.1f} s")


CHECK = Check(10, of_run=look)
