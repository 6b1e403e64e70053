"""Nodes from the files of Prometheus' file-based service discovery; a file is read again when it has changed."""

from __future__ import annotations

import asyncio
import glob
import itertools
import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import yaml
from pydantic import Field, field_validator, model_validator

from watcher.aside import aside
from watcher.clock import Clock
from watcher.fleet._api import FleetError, FleetPlugin, FleetSection, Job, Place

DEADLINE_SECONDS = 20.0  # the files may lie on a network file system
MAX_FILES, MAX_BYTES, MAX_NODES, MAX_RUNS = 1000, 16 << 20, 20_000, 200
ENDINGS = (".json", ".yml", ".yaml")  # those that Prometheus reads

Group = tuple[tuple[str, ...], dict[str, str]]  # targets, their labels


class FileSdSettings(FleetSection):
    poll_seconds: float = Field(default=15.0, ge=5, le=3600)


class FileSdMatch(FleetSection):
    """files: paths, with wildcards in their last part. labels: what a group must carry, shell-style patterns.

    node_label: the label that holds the node's name, where that is not the target's host. run_label: a label whose
    every value is a run of its own, `{run}` in its name.
    """

    files: tuple[str, ...] = Field(min_length=1, max_length=100)
    labels: dict[str, str] = Field(default_factory=dict)
    node_label: str | None = Field(default=None, min_length=1)
    run_label: str | None = Field(default=None, min_length=1)

    @field_validator("files")
    @classmethod
    def _as_prometheus(cls, files: tuple[str, ...]) -> tuple[str, ...]:
        for file in files:
            if not os.path.isabs(file):
                raise ValueError(f"{file!r} is relative: relative to what is not known")
            if glob.has_magic(os.path.dirname(file)) or not file.endswith(ENDINGS):
                raise ValueError(f"{file!r}: wildcards belong into its last part, which ends in {', '.join(ENDINGS)}")
        return files

    @model_validator(mode="after")
    def _apart(self) -> FileSdMatch:
        if self.run_label is not None and self.run_label == self.node_label:
            raise ValueError("run_label and node_label are the same: each node would be a run")
        return self

    @property
    def key(self) -> str:
        return self.model_dump_json()


class FileSdSource:
    def __init__(self, settings: FileSdSettings, matches: Sequence[FileSdMatch], clock: Clock) -> None:
        self._matches = list({match.key: match for match in matches}.values())
        self._read: dict[str, tuple[tuple[int, ...], list[Group]]] = {}  # by path: how the file looked, what it said

    async def jobs(self) -> Sequence[Job]:
        reading = aside(self._jobs)
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return await reading
        except TimeoutError:
            raise FleetError(f"the file_sd files cannot be read within {DEADLINE_SECONDS:g} s") from None

    async def aclose(self) -> None:
        """Nothing is held."""

    def _jobs(self) -> list[Job]:
        read: dict[str, tuple[tuple[int, ...], list[Group]]] = {}
        jobs = []
        for match in self._matches:
            groups: list[Group] = []
            for path in _paths(match.files):
                if path not in read:
                    read[path] = self._file(path)
                groups += read[path][1]
            jobs += jobs_of(match, groups)
        self._read = read  # of one poll at a time; a late thread of an earlier one does no harm
        return jobs

    def _file(self, path: str) -> tuple[tuple[int, ...], list[Group]]:
        known = self._read.get(path)
        try:
            with open(path, "rb") as file:
                status = os.fstat(file.fileno())
                looks = (status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev)
                if known is not None and known[0] == looks:
                    return known
                return looks, groups_of(file.read(MAX_BYTES + 1), path)
        except OSError as error:
            raise FleetError(f"{path} cannot be read: {error.strerror}") from None


def groups_of(data: bytes, path: str) -> list[Group]:
    """What one file says; JSON is YAML too. Raises FleetError: one that is half written is whole at the next poll."""
    if len(data) > MAX_BYTES:
        raise FleetError(f"{path} is larger than {MAX_BYTES >> 20} MiB")
    try:
        raw = yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" at line {where.line + 1}" if where is not None else ""
        raise FleetError(f"{path} is neither YAML nor JSON{line}: {getattr(error, 'problem', error)}"[:300]) from None
    if raw is None:
        return []
    if not isinstance(raw, list):
        raise FleetError(f"{path} holds no list of {{targets: [...], labels: {{...}}}}")
    return [_group(row, number, path) for number, row in enumerate(raw)]


def jobs_of(match: FileSdMatch, groups: Sequence[Group]) -> list[Job]:
    """One list of nodes, or one for each value of the run label. Without that label there is always one."""
    runs: dict[str, dict[str, Place]] = {} if match.run_label is not None else {"": {}}
    for targets, labels in groups:
        run = labels.get(match.run_label, "") if match.run_label is not None else ""
        if not _wanted(match, labels) or (match.run_label is not None and not run):
            continue
        if run not in runs and len(runs) >= MAX_RUNS:
            raise FleetError(f"{match.run_label} has more than {MAX_RUNS} values: give labels that choose among them")
        places = runs.setdefault(run, {})
        named = labels.get(match.node_label) if match.node_label is not None else None
        for target in targets:
            if node := named or host_of(target):
                places.setdefault(node, Place(node=node))
    if sum(len(places) for places in runs.values()) > MAX_NODES:
        raise FleetError(f"{', '.join(match.files)}: more than {MAX_NODES} nodes")
    return [
        Job(
            id=run or ", ".join(match.files),
            state="listed",
            name=run,
            labels={"run": run, "rule": match.key},
            places=tuple(places.values()),
        )
        for run, places in runs.items()
    ]


def host_of(target: str) -> str:
    """The host of HOST:PORT, of [IPv6]:PORT and of a URL."""
    rest = target.partition("://")[2] or target
    rest = rest.partition("/")[0]
    if rest.startswith("["):
        return rest[1:].partition("]")[0]
    return rest.partition(":")[0] if rest.count(":") == 1 else rest


def accepts(match: FileSdMatch, job: Job) -> bool:
    return job.labels.get("rule") == match.key


def _wanted(match: FileSdMatch, labels: dict[str, str]) -> bool:
    return all(fnmatchcase(labels.get(name, ""), wanted) for name, wanted in match.labels.items())


def _group(row: Any, number: int, path: str) -> Group:
    targets = row.get("targets") if isinstance(row, dict) else None
    labels = row.get("labels") or {} if isinstance(row, dict) else None
    if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
        raise FleetError(f"{path}: entry {number} has no list of targets")
    if not isinstance(labels, dict) or any(isinstance(value, list | dict) for value in labels.values()):
        raise FleetError(f"{path}: the labels of entry {number} are no mapping of names to texts")
    return tuple(targets), {str(name): str(value) for name, value in labels.items()}


def _paths(files: Sequence[str]) -> list[str]:
    """The files that are there now. Raises FleetError where a pattern finds none: maybe its folder is not mounted."""
    paths: dict[str, None] = {}
    for file in files:
        found = sorted(itertools.islice(glob.iglob(file), MAX_FILES)) if glob.has_magic(file) else [file]
        if not found:
            raise FleetError(f"no file is called {file}: nodes that are known are watched on")
        paths |= dict.fromkeys(found)
    if len(paths) > MAX_FILES:
        raise FleetError(f"{', '.join(files)}: more than {MAX_FILES} files")
    return list(paths)


PLUGIN = FleetPlugin("file_sd", FileSdSettings, FileSdMatch, FileSdSource, accepts, labels=("run",))
