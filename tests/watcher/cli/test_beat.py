from __future__ import annotations

import json
from pathlib import Path

import pytest

from watcher.agent.follow import LogFollower
from watcher.cli import beat
from watcher.cli.main import main
from watcher.clock import FakeClock
from watcher.config.logs import LogConfig
from watcher.formats._reader import LogReader


def test_beats_are_progress_for_whoever_follows_the_file(tmp_path: Path) -> None:
    path = tmp_path / "beat.jsonl"
    follower = LogFollower([LogConfig(path=str(path))], "n1", None, clock := FakeClock())
    follower.poll()
    assert main(["beat", "--step", "41", "--file", str(path)]) == 0
    assert main(["beat", "--step", "42", "--total", "100", "--file", str(path)]) == 0
    clock.advance(10)
    first, second = follower.poll()
    assert (first.event.step, first.event.total_steps, first.event.format) == (41, None, "beat")
    assert (second.event.step, second.event.total_steps) == (42, 100)
    assert second.event.logged_at is not None
    assert abs(second.event.logged_at - path.stat().st_mtime) < 60


def test_the_file_may_be_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNWATCH_BEAT_FILE", str(tmp_path / "here.jsonl"))
    assert main(["beat", "--step", "1"]) == 0
    assert json.loads((tmp_path / "here.jsonl").read_text())["step"] == 1


def test_a_progress_file_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beat, "MAX_BYTES", 200)
    for step in range(50):
        main(["beat", "--step", str(step), "--file", str(tmp_path / "b")])
    assert (tmp_path / "b").stat().st_size < 300
    assert json.loads((tmp_path / "b").read_text().splitlines()[-1])["step"] == 49


def test_what_cannot_be_done_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["beat", "--step", "-1"]) == 2
    assert main(["beat", "--step", "1", "--file", str(tmp_path / "no/such/folder")]) == 1
    assert "cannot be written: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ('{"step": 3}', 3),
        ('{"step": 3, "total": "many", "at": true}', 3),
        ('{"step": true}', None),
        ('{"step": -1}', None),
        ('{"step": 3, "loss": 2.0, "name": "x"}', None),  # another program's records: not ours to read as a beat
        ('{"step": 3', None),
        ('{"step": ' + "[" * 100 + "}", None),
    ],
)
def test_only_lines_of_a_progress_file_are_beats(line: str, step: int | None) -> None:
    events = [e for e in LogReader(only="beat").feed(line, 1) if e.event == "step"]
    assert [e.step for e in events] == ([] if step is None else [step])
