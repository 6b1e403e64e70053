"""What was seen goes to disk within bounds; a disk that refuses costs the recording alone."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from tests.support.runs import ScriptedRun
from watcher.daemon.answer import Answer
from watcher.daemon.recording import Recorder
from watcher.snapshot import dump_snapshot, parse_snapshot


def note(recorder: Recorder, count: int) -> None:
    run = ScriptedRun(nodes=("n1",), gpus=1)
    for _ in range(count):
        run.t += 10
        answer = run.answer("n1", [])
        assert answer.snapshot is not None
        recorder.note(dump_snapshot(answer.snapshot), answer)


def test_each_line_is_one_answer_or_why_there_was_none(tmp_path):
    recorder = Recorder(tmp_path / "deep" / "seen.jsonl", 1 << 20, 2)
    note(recorder, 1)
    recorder.note(b'{"torn', Answer("n2", 12.3456, None, 'no "answer"'))
    recorder.close()
    first, second = map(json.loads, (tmp_path / "deep" / "seen.jsonl").read_bytes().splitlines())
    assert parse_snapshot(first["snapshot"]).node == "n1"
    assert second == {"received_at": 12.346, "node": "n2", "error": 'no "answer"'}


def test_files_turn_over_and_the_oldest_goes(tmp_path):
    recorder = Recorder(tmp_path / "seen.jsonl", 4096, 3)
    note(recorder, 60)
    recorder.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["seen.jsonl", "seen.jsonl.1", "seen.jsonl.2"]
    assert all(path.stat().st_size <= 4096 for path in tmp_path.iterdir())
    in_order = [tmp_path / name for name in reversed(names)]
    times = [json.loads(line)["received_at"] for path in in_order for line in path.read_bytes().splitlines()]
    assert times == sorted(times)
    assert len(times) > 3


def test_one_file_alone_begins_again(tmp_path):
    recorder = Recorder(tmp_path / "seen.jsonl", 4096, 1)
    note(recorder, 60)
    recorder.close()
    assert [path.name for path in tmp_path.iterdir()] == ["seen.jsonl"]


def test_a_restart_goes_on_in_the_same_file(tmp_path):
    for _ in range(2):
        recorder = Recorder(tmp_path / "seen.jsonl", 1 << 20, 2)
        note(recorder, 1)
        recorder.close()
    assert len((tmp_path / "seen.jsonl").read_bytes().splitlines()) == 2


def test_a_line_that_a_killed_process_did_not_finish_costs_no_other(tmp_path):
    file = tmp_path / "seen.jsonl"
    file.write_bytes(b'{"received_at": 1, "node": "n1", "snap')
    recorder = Recorder(file, 1 << 20, 2)
    note(recorder, 2)
    recorder.close()
    assert [json.loads(line)["node"] for line in file.read_bytes().splitlines()[1:]] == ["n1", "n1"]


def test_a_place_that_refuses_is_said_once_and_taken_up_when_it_works_again(tmp_path, caplog):
    place = tmp_path / "seen"
    place.write_text("a file where a folder should be")
    recorder = Recorder(Path(place / "seen.jsonl"), 1 << 20, 2)
    with caplog.at_level(logging.WARNING):
        note(recorder, 3)
    assert caplog.text.count("recording stopped") == 1
    place.unlink()
    note(recorder, 1)
    recorder.flush()
    recorder.close()
    assert (place / "seen.jsonl").exists()
