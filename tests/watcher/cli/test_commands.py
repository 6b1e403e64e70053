"""The commands as a person uses them: exit codes, one readable line for what is wrong, nothing else on standard out."""

from __future__ import annotations

import json
import socket

import pytest

import detectors
from watcher.cli.main import main


def test_check_config_prints_every_error_and_exits_2(tmp_path, capsys):
    file = tmp_path / "c.yaml"
    file.write_text("daemon: {intervall: 1}\nrunz: []\n")
    assert main(["check-config", str(file)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "did you mean" in said.err
    assert len(said.err.splitlines()) == 2


@pytest.mark.parametrize("text", ["- a\n", "", "5\n"])
def test_a_file_that_is_no_mapping_is_told_so_or_is_all_defaults(tmp_path, capsys, text):
    file = tmp_path / "c.yaml"
    file.write_text(text)
    code = main(["check-config", str(file)])
    said = capsys.readouterr()
    assert code == (0 if text == "" else 2)
    assert "Traceback" not in said.err


def test_check_config_says_what_would_be_watched_and_what_is_not_set(tmp_path, capsys):
    file = tmp_path / "c.yaml"
    file.write_text("runs: [{name: big, nodes: 'n[1-3]'}]\n")
    assert main(["check-config", str(file)]) == 0
    said = capsys.readouterr().out
    assert "big: 3 nodes" in said
    assert "nobody will be paged" in said
    assert "dead man  not set" in said


@pytest.mark.parametrize("what", ["agent", "daemon"])
def test_a_port_in_use_is_one_line_and_exit_1(tmp_path, capsys, what):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file = tmp_path / "c.yaml"
        more = {"database": str(tmp_path / "x.db")} if what == "daemon" else {}
        file.write_text(json.dumps({what: {"listen": f"127.0.0.1:{port}", **more}}))
        assert main([what, "--config", str(file)]) == 1
    said = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in said


def test_a_database_that_cannot_be_is_one_line_and_exit_1(tmp_path, capsys):
    file = tmp_path / "c.yaml"
    (tmp_path / "file").write_text("")
    place = str(tmp_path / "file" / "x.db")
    file.write_text(json.dumps({"daemon": {"listen": "127.0.0.1:0", "database": place}}))
    assert main(["daemon", "--config", str(file)]) == 1
    (line,) = [x for x in capsys.readouterr().err.splitlines() if x.startswith("runwatch daemon:")]
    assert place.rpartition("/")[0] in line


def test_packages_that_something_shadows_stop_the_daemon_with_exit_2(tmp_path, capsys, monkeypatch):
    file = tmp_path / "c.yaml"
    file.write_text("{}")
    monkeypatch.setattr(detectors, "__path__", [*detectors.__path__, str(tmp_path / "detectors")])
    assert main(["daemon", "--config", str(file)]) == 2
    assert "package detectors comes from" in capsys.readouterr().err


def test_a_daemon_that_would_page_nobody_says_so_before_it_listens(tmp_path, caplog):
    file = tmp_path / "c.yaml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        key = {"oncall": {"pagerduty": {"routing_key_file": "/nope/key"}}}
        file.write_text(json.dumps({"daemon": {"listen": listen}, "channels": key}))
        assert main(["daemon", "--config", str(file)]) == 1
    said = caplog.text
    assert "runs: none, nothing is watched" in said
    assert "channels.oncall.pagerduty.routing_key_file: secret file /nope/key: No such file" in said


def test_status_without_a_daemon_is_one_line_and_exit_1(tmp_path, capsys):
    assert main(["status", "--url", "http://127.0.0.1:9"]) == 1
    assert "no daemon answers at http://127.0.0.1:9" in capsys.readouterr().err


def test_test_page_says_which_channel_failed_and_why(tmp_path, capsys):
    file = tmp_path / "c.yaml"
    file.write_text(
        "channels:\n  a: {console: {}}\n  b: {pagerduty: {routing_key: R-SECRET, url: 'http://127.0.0.1:9/x'}}\n"
        "  c: {pagerduty: {routing_key_file: /nonexistent/key}}\n"
    )
    assert main(["test-page", "--config", str(file)]) == 1
    said = capsys.readouterr().out
    assert "a: sent" in said
    assert "b: FAILED" in said
    assert "cannot connect" in said
    assert "c: FAILED" in said
    assert "/nonexistent/key" in said
    assert "R-SECRET" not in said


def test_replay_says_what_it_needs(tmp_path, capsys):
    assert main(["replay"]) == 2
    assert "nothing to replay" in capsys.readouterr().err
    (tmp_path / "x.csv").write_text("a, b\n1, 2\n")
    assert main(["replay", "--nvidia-smi", f"n1={tmp_path / 'x.csv'}"]) == 2
    assert "needs the columns timestamp" in capsys.readouterr().err
    assert main(["replay", "--nvidia-smi", f"n1={tmp_path / 'none.csv'}"]) == 2
    assert main(["replay", "--log", str(tmp_path / "none.log")]) == 2


def test_demo_shows_an_incident_open_and_resolve_and_prints_only_json(capsys):
    assert main(["demo", "--json", "--speed", "200"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    stall = [line["event"] for line in lines if line["key"] == "demo-13B/stall"]
    assert stall[0] == "suspected"
    assert stall[-1] == "resolved"
    assert "opened" in stall
