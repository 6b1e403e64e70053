"""`telemetry:` and `progress:` in the file: errors with their key path, and what is valid and still worth saying."""

from __future__ import annotations

import pytest

from watcher.cli.main import main
from watcher.config.daemon import DaemonConfig
from watcher.config.load import load
from watcher.daemon.addresses import Addresses


def check(tmp_path, capsys, text: str) -> tuple[int, str]:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    code = main(["check-config", str(file)])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_what_an_exporter_cannot_tell_is_said(tmp_path, capsys):
    text = "daemon: {telemetry: [dcgm_exporter, {nvitop_exporter: {port: 8001}}]}\nruns: [{name: a, nodes: n1}]\n"
    code, said = check(tmp_path, capsys, text)
    assert code == 0
    assert "daemon.telemetry[0]: dcgm_exporter: its default counters hold no power limit" in said
    assert "daemon.telemetry[1]: nvitop_exporter: it tells nothing of XIDs" in said


def test_a_limit_in_the_config_ends_the_note_about_it(tmp_path, capsys):
    text = "daemon: {telemetry: [{dcgm_exporter: {power_limit_watts: 700}}]}\n"
    assert "no power limit" not in check(tmp_path, capsys, text)[1]


def test_nobody_to_ask_is_said(tmp_path, capsys):
    assert "nothing is known of any GPU" in check(tmp_path, capsys, "daemon: {agents: {ask: false}}\n")[1]


def test_only_nodes_that_have_an_agent_are_asked(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text('daemon: {agents: {ask: "n[1-2]"}}\nruns: [{name: a, nodes: "n[1-4]"}]\n')
    made = load(file, DaemonConfig)
    assert list(Addresses(made.daemon.agents, lambda: made.runs[0].nodes)) == ["n1", "n2"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("daemon: {telemetry: [{dcgm_exporter: {prt: 1}}]}", "daemon.telemetry[0].dcgm_exporter.prt: unknown key (did"),
        ("daemon: {telemetry: [{dcgm_exporter: {port: 0}}]}", "daemon.telemetry[0].dcgm_exporter.port: "),
        ("daemon: {telemetry: [{dcgm: {}}]}", "unknown key; known here: dcgm_exporter, nvidia"),
        ("daemon: {agents: {ask: 'n['}}", "daemon.agents.ask"),
        ("daemon: {telemetry: [{}]}", "daemon.telemetry[0]: must be one of dcgm_exporter, "),
        ("daemon: {telemetry: {dcgm_exporter: {}}}", "daemon.telemetry: must be a list"),
        ("daemon: {telemetry: [{prometheus: {}}]}", "daemon.telemetry[0].prometheus.url: is missing"),
        ("runs: [{name: a, progress: {prometheus: {url: 'http://x', step: 'rate(s[1m])'}}}]",
         "runs[0].progress.prometheus.step: must be a plain selector"),
    ],
)  # fmt: skip
def test_every_mistake_is_told_with_its_place(tmp_path, capsys, text, told):
    code, said = check(tmp_path, capsys, text + "\n")
    assert code == 2
    assert told in said
