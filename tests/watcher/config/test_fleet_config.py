"""How runs that a source finds are written, and what is said of mistakes in that."""

from __future__ import annotations

from pathlib import Path

import pytest

from watcher.clock import FakeClock
from watcher.config.daemon import DaemonConfig
from watcher.config.fleet import build_feeds
from watcher.config.load import ConfigError, load
from watcher.fleet._api import Job, load_fleet
from watcher.fleet._log_paths import paths_of


def config(folder: Path, text: str) -> DaemonConfig:
    file = folder / "c.yaml"
    file.write_text(text)
    return load(file, DaemonConfig)


@pytest.mark.parametrize("match", ['{slurm_job_name: "tr11-*"}', '{slurm: {job_name: "tr11-*"}}'])
def test_short_and_long_form_are_the_same(tmp_path, match):
    made = config(tmp_path, f"fleet: {{slurm: {{poll_seconds: 90}}}}\nruns: [{{name: a, match: {match}}}]\n")
    (feed,) = build_feeds(made, FakeClock())
    assert (feed.name, feed.poll_seconds) == ("slurm", 90)
    assert feed.rules[0].wants(Job(id="1", state="running", name="tr11-176B"))
    assert not feed.rules[0].wants(Job(id="1", state="running", name="tr10"))


def test_one_source_serves_all_its_runs(tmp_path):
    made = config(tmp_path, "runs: [{name: a, match: {slurm_job_id: 7}}, {name: b, match: {slurm_user: x}}]\n")
    (feed,) = build_feeds(made, FakeClock())
    assert [rule.name for rule in feed.rules] == ["a", "b"]


@pytest.mark.parametrize(
    ("run", "told"),
    [
        ("name: a, nodes: n1, match: {slurm_job_id: 7}", "runs[0]: give nodes or match"),
        ("name: a, match: {}", "runs[0].match: give the keys of one source"),
        ("name: a, match: {slurm_job_id: 7, static: {nodes: n1}}", "not static and slurm"),
        ("name: a, match: {slurm_jobname: x}", "unknown key (did you mean slurm_job_name?)"),
        ("name: a, match: {slurm_partition: x}", "a partition alone is everybody's jobs"),
        ("name: a, match: {slurm: {job_id: 7}, slurm_user: x}", "not both"),
        ('name: "{step}", match: {slurm_job_id: 7}', "nothing fills in {step}; known are {job_name}"),
        ('name: "{job_name}", nodes: n1', "nothing fills in {job_name}; its source gives none"),
        ("name: a, logs: [{path: '%stdout'}]", "'%stdout' is relative"),
    ],
)
def test_mistakes_are_named_with_their_place(tmp_path, run, told):
    with pytest.raises(ConfigError) as error:
        config(tmp_path, f"runs: [{{{run}}}]\n")
    assert told in str(error.value)


def test_a_scheduler_is_not_asked_more_than_once_a_minute(tmp_path):
    with pytest.raises(ConfigError, match=r"fleet\.slurm\.poll_seconds"):
        config(tmp_path, "fleet: {slurm: {poll_seconds: 10}}\n")


def test_every_source_has_settings_that_need_not_be_written():
    for plugin in load_fleet().values():
        assert plugin.settings().poll_seconds >= 5  # type: ignore[attr-defined]
        assert set(plugin.short) <= set(plugin.match.model_fields)


JOB = Job(
    id="7_2", state="running", name="tr*11", log_path="/out/%x-%A_%3a-%N.out",
    log_names={"%j": "9", "%A": "7", "%a": "2", "%x": "tr*11", "%u": "me", "%N": "n1"},
)  # fmt: skip


@pytest.mark.parametrize(
    ("path", "filled"),
    [
        ("%stdout", "/out/tr[*]11-7_002-n1.out"),
        ("/logs/%j/%x.txt", "/logs/9/tr[*]11.txt"),
        ("/logs/%u-%t-%%.txt", "/logs/me-*-%.txt"),
        ("/logs/plain.txt", "/logs/plain.txt"),
    ],
)
def test_paths_are_filled_in_and_names_are_no_wildcards(path, filled):
    assert paths_of(path, JOB) == (filled,)
