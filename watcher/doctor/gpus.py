"""Do the GPUs tell what the signatures need: power, its limit, utilization, ECC, XIDs?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from watcher.doctor._api import Check, Line, RunScene, Scene, listed

NEEDED = {  # field -> what is blind without it
    "power_watts": "a hang is then recognised by steps alone, after the long limits",
    "power_limit_watts": "spinning is then told by the learnt power alone",
    "utilization_ratio": "spinning cannot be told from idling",
}
WELCOME = {
    "ecc_volatile_uncorrected_count": "bad memory is then known from XIDs alone",
    "remap_failed": "no warning of a card whose spare rows are used up",
    "sm_clock_mhz": "a slow GPU is then seen by power alone",
}


def look(scene: Scene, run: RunScene) -> Iterator[Line]:
    if not run.answering:
        return
    few = [n for n in run.answering if n.gpus_fresh and n.expected_gpus and len(n.gpus) < n.expected_gpus]
    none = [n for n in run.answering if not n.gpus]
    if run.gpus and not few and not none:
        yield Line("ok", "gpus", f"{run.gpus} on {len(run.answering)} nodes, all there")
    for node in few:
        yield Line("fail", "gpus", f"{node.name} shows {len(node.gpus)} of {node.expected_gpus}", "look at its dmesg")
    if none:
        yield Line("fail", "gpus", f"no readings from {listed(n.name for n in none)}")
    yield from _sources(run)
    for fields, level in ((NEEDED, "warn"), (WELCOME, "note")):
        for name, without in fields.items():
            lacking = {n.name for n in run.answering for gpu in n.gpus if getattr(gpu, name) is None}
            if lacking:
                yield Line(level, "gpus", f"{name} is not known on {listed(lacking)}: {without}")  # type: ignore[arg-type]


def _sources(run: RunScene) -> Iterator[Line]:
    """What the agents say of their own sources, the same trouble of many nodes in one line."""
    troubled: dict[tuple[str, str], list[str]] = defaultdict(list)
    for node in run.answering:
        for source, health in node.health.items():
            if not health.ok:
                troubled[source, health.error or health.kind or "not well"].append(node.name)
    for (source, error), names in troubled.items():
        yield Line("warn" if source == "nvml" else "note", source, f"{listed(names)}: {error}")


CHECK = Check(20, of_run=look)
