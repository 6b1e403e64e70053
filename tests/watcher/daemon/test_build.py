"""From a checked config to a daemon: where agents are asked, what is taken up again, what is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.alerts.incident_samples import clear, finding, fires
from tests.support.runs import ScriptedRun
from watcher.clock import FakeClock
from watcher.config.daemon import DaemonConfig
from watcher.daemon.addresses import Addresses
from watcher.daemon.build import build
from watcher.daemon.store import Store


def config(folder: Path, **more: object) -> DaemonConfig:
    return DaemonConfig.model_validate({"daemon": {"database": str(folder / "x.db")}, **more})


def asked(made: DaemonConfig) -> dict[str, str]:
    return dict(Addresses(made.daemon.agents, lambda: [node for run in made.runs for node in run.nodes]))


@pytest.mark.parametrize(
    ("written", "url"),
    [
        (None, "http://n1:9876"),
        ("10.0.0.1", "http://10.0.0.1:9876"),
        ("10.0.0.1:99", "http://10.0.0.1:99"),
        ("gpu.example.org:99", "http://gpu.example.org:99"),
        ("[fe80::1]:99", "http://[fe80::1]:99"),
        ("[fe80::1]", "http://[fe80::1]:9876"),
        ("https://proxy.example.org", "https://proxy.example.org:9876"),
        ("https://proxy.example.org:443", "https://proxy.example.org:443"),
    ],
)
def test_where_an_agent_is_asked(written, url):
    agents = {"addresses": {"n1": written}} if written else {}
    made = DaemonConfig.model_validate({"daemon": {"agents": agents}, "runs": [{"name": "r", "nodes": "n1"}]})
    assert asked(made) == {"n1": url}


def test_a_node_of_two_runs_is_asked_once():
    made = DaemonConfig.model_validate({"runs": [{"name": "a", "nodes": "n[1-2]"}, {"name": "b", "nodes": "n[2-3]"}]})
    assert list(asked(made)) == ["n1", "n2", "n3"]


def test_what_a_run_taught_is_there_after_a_restart(tmp_path):
    made = config(tmp_path, runs=[{"name": "train", "nodes": "n1"}])
    script = ScriptedRun(nodes=("n1",))
    script.steps(60, 900, 10, 1)
    script.play(900)
    clock = FakeClock()
    store = Store(tmp_path / "x.db")
    daemon, keeper = build(made, clock, store)
    daemon.runs[0].fold.load(script.fold.dump())
    keeper(daemon.runs, force=True)
    store.close()

    store = Store(tmp_path / "x.db")
    daemon, _ = build(made, clock, store)
    frame = daemon.runs[0].fold.frame(clock.now)
    assert frame.progress.last_step == script.fold.frame(clock.now).progress.last_step
    assert frame.learnt.gaps["training"].count > 50
    store.close()


def test_saved_state_that_cannot_be_read_costs_what_was_learnt_and_not_the_start(tmp_path, caplog):
    store = Store(tmp_path / "x.db")
    store.put_state("run/train", b"\x00 not ours")
    store.put_state("ledger", b"[{")
    daemon, _ = build(config(tmp_path, runs=[{"name": "train", "nodes": "n1"}]), FakeClock(), store)
    assert "learnt anew" in caplog.text
    assert len(daemon.runs) == 1
    store.close()


def test_detectors_that_are_off_are_not_there_and_those_on_trial_are_marked(tmp_path):
    store = Store(tmp_path / "x.db")
    made = config(
        tmp_path,
        detectors={"idle_stall": {"mode": "off"}},
        runs=[{"name": "train", "nodes": "n1", "detectors": {"busy_stall": {"mode": "shadow"}}}],
    )
    daemon, _ = build(made, FakeClock(), store)
    modes = {active.plugin.name: active.mode for active in daemon.runs[0].detectors}
    assert "idle_stall" not in modes
    assert modes["busy_stall"] == "shadow"
    assert modes["low_power_deadlock"] == "active"
    store.close()


def test_the_hash_tells_configs_apart_and_not_their_order(tmp_path):
    store = Store(tmp_path / "x.db")
    one, two, other = (
        build(config(tmp_path, **more), FakeClock(), store)[0].config_hash
        for more in ({}, {"runs": []}, {"runs": [{"name": "r"}]})
    )
    assert one == two != other
    store.close()


def test_what_ended_months_ago_is_forgotten_by_a_daemon_that_runs(tmp_path):
    clock, store = FakeClock(), Store(tmp_path / "x.db")
    daemon, keeper = build(config(tmp_path), clock, store)
    daemon.desk.evaluate([fires(finding())])
    daemon.desk.close("tr7/stall", "over", "me")
    clock.advance(89 * 86_400)
    daemon.desk.evaluate([clear()])
    keeper([])
    assert [one.key for one in store.history()] == ["tr7/stall"]
    clock.advance(2 * 86_400)
    keeper([])
    assert store.history() == []
    assert store.transitions() == []
