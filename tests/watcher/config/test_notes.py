"""A config that is valid and may not do what is meant: said at the start, not when the first page fails at night."""

from __future__ import annotations

import pytest

from watcher.config.agent import AgentConfig
from watcher.config.daemon import DaemonConfig
from watcher.config.notes import daemon_notes, unreadable_files

RUN = {"runs": [{"name": "r", "nodes": "n1"}]}
CONSOLE = {"channels": {"c": {"console": {}}}}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (CONSOLE, "runs: none, nothing is watched"),
        (RUN, "channels: none, nobody will be paged"),
        ({**CONSOLE, "runs": [{"name": "r"}]}, "runs[0]: r has neither nodes nor logs"),
        ({**RUN, **CONSOLE, "routes": [{"to": "c", "signature": "crash"}]}, "routes: none takes every critical"),
        ({**RUN, **CONSOLE, "daemon": {"token_file": "/nope/t"}}, "daemon.token_file: secret file /nope/t: No such"),
        (
            {**RUN, **CONSOLE, "daemon": {"agents": {"token_file": "/nope/t"}}},
            "daemon.agents.token_file: secret file /nope/t",
        ),
        (
            {**RUN, **CONSOLE, "daemon": {"agents": {"push": "n1", "master_file": __file__}}},
            "daemon.listen 127.0.0.1:9877 is reached from this host only: no other node can push",
        ),
        (
            {**RUN, "channels": {"oncall": {"pagerduty": {"routing_key_file": "/nope/k"}}}},
            "channels.oncall.pagerduty.routing_key_file: secret file /nope/k: No such file",
        ),
    ],
)
def test_one_line_each(config, said):
    (note,) = daemon_notes(DaemonConfig.model_validate(config))
    assert note.startswith(said)


def test_nothing_is_said_where_all_is_well(tmp_path):
    (tmp_path / "key").write_text("R-SECRET\n")
    channels = {"oncall": {"pagerduty": {"routing_key_file": str(tmp_path / "key")}}}
    routes = [{"to": "oncall", "severity": "critical"}, {"to": "oncall", "signature": "crash"}]
    assert daemon_notes(DaemonConfig.model_validate({**RUN, "channels": channels, "routes": routes})) == []


def test_an_empty_file_and_the_agents_token_are_named_and_what_we_write_ourselves_is_not(tmp_path):
    (tmp_path / "empty").write_text(" \n")
    agent = {"agent": {"token_file": str(tmp_path / "empty"), "state_file": str(tmp_path / "later.json")}}
    (note,) = unreadable_files(AgentConfig.model_validate(agent))
    assert note == f"agent.token_file: secret file {tmp_path / 'empty'} is empty"
