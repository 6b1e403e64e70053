"""Prometheus' own target files say which nodes a run has; a file that cannot be read is never "no nodes"."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from watcher.clock import FakeClock
from watcher.fleet._api import FleetError, Job
from watcher.fleet.file_sd import FileSdMatch, FileSdSettings, FileSdSource, accepts, host_of

TARGETS = """
- targets: ["gpu-01:9100", "gpu-02:9100"]
  labels: {run: tr11, cluster: a}
- targets: ["gpu-02:9835", "gpu-03:9100"]
  labels: {run: tr11, cluster: a}
- targets: [gpu-09:9100]
  labels: {run: other, cluster: b}
"""


class Files:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def source(self, **match: Any) -> FileSdSource:
        self.match = FileSdMatch(**({"files": [f"{self.folder}/*.yml"]} | match))
        return FileSdSource(FileSdSettings(), [self.match], FakeClock())


@pytest.fixture
def files(tmp_path):
    (tmp_path / "a.yml").write_text(TARGETS)
    return Files(tmp_path)


def ask(source: FileSdSource) -> list[Job]:
    return list(asyncio.run(source.jobs()))


def nodes(source: FileSdSource) -> list[str]:
    (job,) = ask(source)
    assert job.state == "listed"
    return [place.node for place in job.places]


def test_each_node_is_there_once_whatever_scrapes_it(files):
    source = files.source(labels={"cluster": "a"})
    assert nodes(source) == ["gpu-01", "gpu-02", "gpu-03"]
    assert all(accepts(files.match, job) for job in ask(source))


def test_each_value_of_a_label_is_a_run(files):
    found = {job.labels["run"]: [place.node for place in job.places] for job in ask(files.source(run_label="run"))}
    assert found == {"tr11": ["gpu-01", "gpu-02", "gpu-03"], "other": ["gpu-09"]}


def test_json_is_read_too_and_the_name_may_come_from_a_label(files):
    (files.folder / "b.json").write_text(json.dumps([{"targets": ["10.0.0.7:9100"], "labels": {"host": "gpu-07"}}]))
    assert nodes(files.source(files=[f"{files.folder}/b.json"], node_label="host")) == ["gpu-07"]


def test_a_change_is_seen_also_where_size_and_time_stay(files):
    source = files.source(labels={"run": "other"})
    assert nodes(source) == ["gpu-09"]
    before = (files.folder / "a.yml").stat()
    new = files.folder / "new"
    new.write_text(TARGETS.replace("gpu-09", "gpu-08"))
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(new, files.folder / "a.yml")
    assert nodes(source) == ["gpu-08"]


def test_a_file_that_has_not_changed_is_not_parsed_again(files, monkeypatch):
    source = files.source(labels={"run": "other"})
    first = nodes(source)
    monkeypatch.setattr("watcher.fleet.file_sd.groups_of", lambda data, path: pytest.fail("parsed again"))
    assert nodes(source) == first


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- targets: [gpu-01", "neither YAML nor JSON at line"),
        ("targets: [gpu-01]", "holds no list"),
        ("- gpu-01", "entry 0 has no list of targets"),
        ("- targets: [[gpu-01]]", "entry 0 has no list of targets"),
        ("- {targets: [gpu-01], labels: [a]}", "labels of entry 0"),
        ("- {targets: [gpu-01], labels: {a: [b]}}", "labels of entry 0"),
        ("[" * 5000, "neither YAML nor JSON"),
    ],
)
def test_a_broken_file_is_named_and_whole_again_at_the_next_poll(files, text, told):
    source = files.source(labels={"run": "other"})
    nodes(source)
    (files.folder / "a.yml").write_text(text)
    with pytest.raises(FleetError, match=told) as error:
        ask(source)
    assert str(files.folder / "a.yml") in str(error.value)
    (files.folder / "a.yml").write_text(TARGETS)
    assert nodes(source) == ["gpu-09"]


def test_a_file_that_is_not_there_is_an_error_and_never_no_nodes(files):
    (files.folder / "a.yml").unlink()
    with pytest.raises(FleetError, match="no file is called"):
        ask(files.source())
    with pytest.raises(FleetError, match="cannot be read: No such file"):
        ask(files.source(files=[f"{files.folder}/b.yml"]))


def test_an_empty_file_is_a_run_without_nodes(files):
    (files.folder / "a.yml").write_text("[]")
    assert nodes(files.source()) == []
    assert ask(files.source(run_label="run")) == []


def test_two_rules_on_one_file_keep_apart(files):
    one, two = (FileSdMatch(files=(f"{files.folder}/a.yml",), labels={"run": run}) for run in ("tr11", "other"))
    told = ask(FileSdSource(FileSdSettings(), [one, two], FakeClock()))
    assert [len(job.places) for job in told if accepts(one, job)] == [3]
    assert [len(job.places) for job in told if accepts(two, job)] == [1]


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("gpu-01:9100", "gpu-01"), ("gpu-01", "gpu-01"), ("[fe80::1]:9100", "fe80::1"), ("fe80::1", "fe80::1"),
        ("https://gpu-01.example.org:9100/metrics", "gpu-01.example.org"), ("", ""),
    ],
)  # fmt: skip
def test_the_node_is_the_host_of_the_target(target, host):
    assert host_of(target) == host


@pytest.mark.parametrize(
    ("match", "told"),
    [
        ({"files": ["targets.yml"]}, "is relative"),
        ({"files": ["/a/*/b.yml"]}, "wildcards belong into its last part"),
        ({"files": ["/a/b.txt"]}, "ends in .json"),
        ({"files": ["/a/b.yml"], "run_label": "x", "node_label": "x"}, "each node would be a run"),
    ],
)
def test_mistakes_in_a_rule_are_told(match, told):
    with pytest.raises(ValidationError, match=told):
        FileSdMatch(**match)
