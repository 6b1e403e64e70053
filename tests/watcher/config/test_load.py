"""What a person is told about a config that is wrong: all at once, with file, line, key path and what to do."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from watcher.config.agent import AgentConfig
from watcher.config.daemon import DaemonConfig
from watcher.config.load import ConfigError, load

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 8)}]\n" for i in range(1, 9)
)
RUN = "runs: [{name: r, nodes: n1}]\n"


def problems(tmp_path: Path, text: str, model=DaemonConfig) -> list[str]:
    file = tmp_path / "runwatch.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file, model)
    return [line.removeprefix(str(file)) for line in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("daemon:\n  intervall_seconds: 5\n", ":2: daemon.intervall_seconds: unknown key (did you mean interval_s"),
        ("demon: {}\n", ":1: demon: unknown key (did you mean daemon?)"),
        ("runs:\n- name: r\n  node: n1\n", ":3: runs[0].node: unknown key (did you mean nodes?)"),
        (
            "detectors: {low_power_deadlok: {}}\n",
            ":1: detectors.low_power_deadlok: unknown key (did you mean low_power_deadlock?)",
        ),
        (
            RUN[:-3] + ", detectors: {crash: {restart_hold: 3}}}]\n",
            ":1: runs[0].detectors.crash.restart_hold: unknown key (did you mean restart_hold_seconds?)",
        ),
        (
            "channels: {oncall: {pagerduty: {routing_key: x, routing_kee: y}}}\n",
            ":1: channels.oncall.pagerduty.routing_kee: unknown key (did you mean routing_key?)",
        ),
        ("daemon: {listen: '0.0.0.0:9877'}\n", ":1: daemon: listen 0.0.0.0:9877 is open to others: set token_file"),
        ("daemon: {listen: '0.0.0.0:9877', token_file: /t}\n", "would send the token in the clear: set tls:"),
        ("daemon: {agents: {push: true}}\n", "daemon.agents: push needs master_file"),
        ("daemon: {agents: {token_file: /a, master_file: /b}}\n", "give token_file or master_file, not both"),
        ("daemon: {listen: nonsense}\n", ":1: daemon.listen: 'nonsense' is not HOST:PORT"),
        ("daemon: {interval_seconds: 0}\n", ":1: daemon.interval_seconds: Input should be greater than or equal to 1"),
        ("runs: [{name: r, nodes: 'n[1-'}]\n", ":1: runs[0].nodes: not a hostlist"),
        ("runs: [{name: r}, {name: r}]\n", ":1: two runs are called 'r'"),
        ("runs: [{nodes: n1}]\n", ":1: runs[0].name: is missing"),
        ("runs: [{name: r, logs: }]\n", ":1: runs[0].logs: must be a list"),
        ("daemon: {agents: }\n", ":1: daemon.agents: must be a mapping"),
        ("agent: {}\n", ":1: agent: belongs in the agent's own file"),
        ("routes: [{to: oncal}]\n", "no channel is called 'oncal'"),
        ("channels: {a: {}}\n", ":1: channels.a: a channel is one of "),
        ("daemon: {}\ndaemon: {}\n", ":2: daemon: the key stands here twice"),
        ("daemon: [\n", "not YAML"),
        ("- a\n", ""),
        ("a: &a [*a]\n", "anchors that repeat each other"),
        (LAUGHS, "anchors that repeat each other"),
        ("[" * 3000, "not YAML"),
        ("a: !!python/object:os.system x\n", "could not determine a constructor"),
        ("runs: [{name: r, logs: [{path: /l, patterns: {step: '(?P<step>'}}]}]\n", "runs[0].logs[0].patterns.step"),
        ("runs: [{name: r, logs: [{path: /l, patterns: {step: '(?=x)(?P<step>1)'}}]}]\n", "logs[0].patterns.step"),
    ],
)  # fmt: skip
def test_one_readable_line_says_where_and_what(tmp_path, text, line):
    (problem,) = problems(tmp_path, text)
    assert line in problem
    assert "\n" not in problem


def test_all_errors_come_at_once(tmp_path):
    text = "daemon: {interval: 5, port: 1}\nruns: [{nodes: n1, gpus: 8}]\n"
    assert len(problems(tmp_path, text)) == 4


def test_an_agents_pattern_that_cannot_work_is_named(tmp_path):
    text = "agent: {logs: [{path: /l, patterns: {step: 'step (?P<stp>[0-9]+)'}}]}\n"
    (problem,) = problems(tmp_path, text, AgentConfig)
    assert "agent.logs[0].patterns.step" in problem
    assert "stp" in problem


def test_a_missing_file_and_a_binary_file_are_one_line(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "none.yaml", DaemonConfig)
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(tmp_path / "b.yaml", DaemonConfig)


def test_hostlists_are_spread_once_each_in_order(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("runs: [{name: r, nodes: ['node[08-10]', 'login1', 'node09']}]\n")
    assert load(file, DaemonConfig).runs[0].nodes == ("node08", "node09", "node10", "login1")


def test_a_runs_detector_options_win_key_by_key_over_the_defaults(tmp_path):
    from watcher.config.detectors import settled

    file = tmp_path / "c.yaml"
    file.write_text(
        "detectors: {busy_stall: {gap_times: 7, least_seconds: 300}, idle_stall: {mode: shadow}}\n"
        "runs: [{name: r, detectors: {busy_stall: {gap_times: 9}}}]\n"
    )
    config = load(file, DaemonConfig)
    configs, modes = settled(config.detectors, config.runs[0].detectors)
    assert (configs["busy_stall"].gap_times, configs["busy_stall"].least_seconds) == (9, 300)
    assert (modes["idle_stall"], modes["busy_stall"]) == ("shadow", "active")


def test_secrets_are_never_shown(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(
        "channels: {oncall: {pagerduty: {routing_key: R-SECRET-1}}, w: {webhook: {url: 'https://h/S-2'}}}\n"
    )
    config = load(file, DaemonConfig)
    shown = repr(config) + str(config.model_dump()) + config.model_dump_json()
    assert "R-SECRET-1" not in shown
    assert "S-2" not in shown


def test_a_section_that_is_all_commented_out_is_the_default(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("daemon:\n  # listen: x\nruns:\nchannels:\nroutes:\n")
    assert load(file, DaemonConfig) == DaemonConfig()


def test_the_daemons_file_given_to_the_agent_is_told_so(tmp_path):
    for line in problems(tmp_path, "daemon: {}\nruns: []\n", AgentConfig):
        assert "belongs in the daemon's own file" in line


def test_one_agent_file_with_the_nodes_name_in_it_serves_all_nodes(monkeypatch):
    monkeypatch.setenv("RUNWATCH_NODE", "n7")
    push = {"url": "https://watch-host", "token_file": "/tokens/%N.token", "ca_file": "/ca.pem"}
    section = AgentConfig.model_validate({"agent": {"push": push, "state_file": "/shared/%N.json"}}).agent
    assert section.push is not None
    assert (str(section.push.token_file), str(section.state_file)) == ("/tokens/n7.token", "/shared/n7.json")
    named = AgentConfig.model_validate({"agent": {"node": "n8", "token_file": "/%N"}}).agent
    assert str(named.token_file) == "/n8"


def test_in_a_container_the_environment_names_the_node(monkeypatch):
    monkeypatch.setenv("RUNWATCH_NODE", "gpu-node-07")
    assert AgentConfig().agent.node == "gpu-node-07"
    assert AgentConfig.model_validate({"agent": {"node": "n1"}}).agent.node == "n1"
    monkeypatch.setenv("RUNWATCH_NODE", " ")
    assert AgentConfig().agent.node == socket.gethostname()
