"""Paths of logs that a job fills in: Slurm's placeholders in `runs[].logs`, and `%stdout` for what the job writes to.

Slurm reports paths with `%N` and, before 24, with all of them as they were written.
"""

from __future__ import annotations

import glob
import re

from watcher.fleet._api import Job

STDOUT = "%stdout"
MAX_NODES = 64  # with more of them `%N` is a wildcard
PLACEHOLDER = re.compile(r"%(\d*)([A-Za-z%])")


def paths_of(path: str, job: Job) -> tuple[str, ...]:
    """The paths, ready for wildcards. Empty where the source does not tell what the job writes to."""
    if path != STDOUT:
        return _filled(path, job, [place.node for place in job.places])
    return _filled(job.log_path, job, []) if job.log_path is not None else ()


def _filled(path: str, job: Job, nodes: list[str]) -> tuple[str, ...]:
    """`%N`: of a batch job's own output its first node; in the user's own path, as `srun` fills it, each node."""
    if "%N" not in path:
        return (_fill(path, job, None),)
    if not nodes:
        return (_fill(path, job, job.log_names.get("%N") or None),)
    if len(nodes) > MAX_NODES:
        return (_fill(path, job, None),)
    return tuple(_fill(path, job, node.partition(".")[0]) for node in nodes)


def _fill(path: str, job: Job, node: str | None) -> str:
    def value(found: re.Match[str]) -> str:
        width, letter = found[1], found[2]
        if letter == "%":
            return "%"
        text = node if letter == "N" else job.log_names.get(f"%{letter}")
        if text is None:
            return "*"  # a rank, a step: as many files as there are
        return glob.escape(text.zfill(min(int(width), 10)) if width and text.isdigit() else text)

    return PLACEHOLDER.sub(value, path)
