"""An action for real: a struck node is drained in a real Slurm, its job runs on, and nothing new is placed there."""

from __future__ import annotations

import os

import pytest

from alerts.actions import ActionRule, Due
from alerts.policy import Match
from tests.alerts.test_actions import NOW, incident
from tests.support.slurm_cluster import SlurmCluster, missing
from watcher.actions._api import load_actions
from watcher.daemon.acting import Actor, run_command
from watcher.daemon.store import Store

pytestmark = pytest.mark.slow


@pytest.fixture
def slurm(tmp_path_factory):
    if (why := missing()) is not None:
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    with SlurmCluster(tmp_path_factory.mktemp("slurm"), count=2) as cluster:
        yield cluster


def test_a_struck_node_is_drained_with_its_reason_and_keeps_its_job(slurm, tmp_path, monkeypatch):
    for name in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(name, slurm.env[name])
    job = slurm.submit("sleep 120", "--nodelist=gpu01", "--exclusive")
    slurm.wait(job, "RUNNING")
    plugin = load_actions()["slurm_drain"]
    rule = ActionRule(name="drain", kind="slurm_drain", match=Match(signatures=("repeated_ecc",)), dry_run=False)
    store = Store(tmp_path / "x.db", NOW)
    actor = Actor([(rule, plugin, plugin.config())], store)
    struck = incident(node="gpu01", summary="gpu01 was struck 2 times (ecc_uncorrectable, then crash_start)")
    actor.consider({struck.key: struck}, {}, NOW)
    slurm.until(lambda: all(deed.ok is not None for deed in actor.deeds), "the deed is done")
    (deed,) = actor.deeds
    assert deed.ok, deed.outcome
    store.close()
    reason = slurm.run("sinfo", "-R", "--noheader", "--format=%E|%N")
    assert "runwatch repeated_ecc of r1: gpu01 was struck 2 times" in reason
    assert reason.endswith("|gpu01")
    assert slurm.state(job) == "RUNNING"
    later = slurm.submit("sleep 1", "--nodelist=gpu01")
    assert slurm.state(later) == "PENDING"


def test_a_node_that_slurm_does_not_know_is_told_by_slurms_own_words(slurm, monkeypatch):
    for name in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(name, slurm.env[name])
    plugin = load_actions()["slurm_drain"]
    due = Due(ActionRule(name="drain", kind="slurm_drain", match=Match()), incident(node="nowhere"), "nowhere", ())
    ok, said = run_command(plugin.argv(plugin.config(), due))
    assert not ok
    assert "nowhere" in said or "Invalid node name" in said
