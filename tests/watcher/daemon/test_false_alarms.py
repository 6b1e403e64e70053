"""A false alarm leaves a recording of its own, which replays to the same incident."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.runs import SPIN, START, WORK, ScriptedRun, opened
from watcher.cli.main import main
from watcher.daemon.false_alarms import keep
from watcher.daemon.recording import Recorder
from watcher.snapshot import dump_snapshot


def recorded(folder: Path, file_bytes: int = 1 << 30) -> tuple[ScriptedRun, Path]:
    """A run that hangs at second 9,000, with all answers on disk."""
    path = folder / "seen.jsonl"
    recorder = Recorder(path, file_bytes, keep_files=50)
    run = ScriptedRun(nodes=("n1",))
    run.steps(60, 9000, 10, 1)
    run.level = lambda node, index, t: WORK if t <= 9000 else SPIN
    observe = run.fold.observe

    def note(answer) -> None:
        recorder.note(dump_snapshot(answer.snapshot), answer)
        observe(answer)

    run.fold.observe = note  # type: ignore[method-assign]
    run.play(9600)
    recorder.close()
    return run, path


def test_what_is_kept_replays_to_the_incident_and_holds_only_its_hour(tmp_path, capsys):
    run, path = recorded(tmp_path, file_bytes=400_000)
    assert path.with_name("seen.jsonl.1").exists()
    (page,) = opened(run.transitions)
    kept = keep(path, page.incident, START + 9600, tmp_path / "false-alarms")
    assert kept is not None
    assert main(["replay", str(kept), "--run", "train", "--json"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(x["event"], x["signature"]) for x in lines if x["event"] == "opened"] == [("opened", "low_power_deadlock")]
    assert min(x["at"] for x in lines) >= page.incident.suspect_since_at - 3600


def test_an_incident_that_the_recording_no_longer_reaches_keeps_nothing(tmp_path):
    run, path = recorded(tmp_path)
    (page,) = opened(run.transitions)
    path.write_bytes(b"")
    assert keep(path, page.incident, START + 9600, tmp_path / "false-alarms") is None
    assert list((tmp_path / "false-alarms").iterdir()) == []
