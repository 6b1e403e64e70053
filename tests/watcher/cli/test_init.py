"""A first config from a log: it passes the checker and says what was found."""

from __future__ import annotations

from pathlib import Path

from watcher.cli.main import main

CORPUS = Path(__file__).resolve().parents[2] / "corpus"


def test_it_writes_a_config_that_passes_and_says_what_it_found(tmp_path, capsys):
    target = tmp_path / "runwatch.yaml"
    assert main(["init", str(CORPUS / "m4.log"), "--output", str(target), "--run", "idefics"]) == 0
    text = target.read_text()
    assert "2 steps as m4 prints them, 17.4 s a step" in text or "17.5" in text
    assert main(["check-config", str(target)]) == 0
    assert "idefics" in capsys.readouterr().out


def test_a_log_without_steps_gets_a_place_for_a_pattern_and_exit_1(tmp_path, capsys):
    log = tmp_path / "odd.log"
    log.write_text("hello\nworld\n")
    assert main(["init", str(log)]) == 1
    said = capsys.readouterr().out
    assert "no step that could be read" in said
    assert "step: 'step (?P<step>[0-9]+)" in said


def test_it_overwrites_nothing(tmp_path, capsys):
    target = tmp_path / "there.yaml"
    target.write_text("mine")
    assert main(["init", str(CORPUS / "m4.log"), "--output", str(target)]) == 2
    assert target.read_text() == "mine"


def test_nodes_that_do_not_answer_are_named(capsys):
    assert main(["init", str(CORPUS / "m4.log"), "--nodes", "localhost", "--port", "9"]) == 0
    assert "localhost: cannot connect" in capsys.readouterr().out
