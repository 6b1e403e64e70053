"""`runwatch parse-log`: the promised objects, people's account, exit codes, and files that cannot be read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from watcher.cli.main import main

GOOD = "".join(
    f" iteration {n:6}/   400 | consumed samples: 1 | elapsed time per iteration (ms): {1000.0 + n} | lm loss: 2.0 |\n"
    for n in range(1, 40)
)
BAD = GOOD + "0: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, list[dict[str, Any]]]:
    code = main(["parse-log", "--json", *args])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_json_is_one_object_per_event_and_then_a_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_text(GOOD)
    code, items = run(capsys, str(tmp_path / "a.log"))
    assert code == 0
    assert items[0]["line"] == 1
    assert (items[0]["step"], items[0]["total_steps"], items[0]["step_seconds"]) == (1, 400, 1.001)
    assert "file" not in items[0]
    assert items[-1] == {
        "event": "summary", "format": "megatron", "steps": 39, "first_step": 1, "last_step": 39, "errors": 0,
        "ends": "running",
    }  # fmt: skip


def test_a_crash_is_exit_code_1_and_the_summary_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_text(BAD)
    code, items = run(capsys, str(tmp_path / "a.log"))
    assert code == 1
    assert (items[-1]["ends"], items[-1]["root_cause"]["line"], items[-1]["root_cause"]["kind"]) == (
        "crashed",
        40,
        "oom_gpu",
    )


def test_several_files_carry_their_name_and_end_with_one_for_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.log").write_text(GOOD)
    with gzip.open(tmp_path / "b.log.gz", "wt") as file:
        file.write(BAD)
    _, items = run(capsys, str(tmp_path / "a.log"), str(tmp_path / "b.log.gz"))
    assert {item["file"] for item in items[:-1]} == {str(tmp_path / "a.log"), str(tmp_path / "b.log.gz")}
    summaries = [item for item in items if item["event"] == "summary"]
    assert [item["steps"] for item in summaries] == [39, 39, 78]
    assert "file" not in summaries[-1]


def test_people_get_the_cause_first_and_the_rate_as_a_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_text(BAD)
    assert main(["parse-log", str(tmp_path / "a.log")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "megatron, 39 records, step 1 to 39 of 400" in lines[0]
    assert lines[1].split() == ["ends", "crashed"]
    assert "oom_gpu, line 40, rank 0" in lines[2]
    assert any("s/step" in line and "▁" in line and "█" in line for line in lines)


def test_a_missing_file_is_told_by_name_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parse-log", str(tmp_path / "none.log")]) == 2
    assert "none.log: No such file" in capsys.readouterr().err


def test_a_broken_gzip_file_tells_what_was_read_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = gzip.compress(GOOD.encode())
    (tmp_path / "a.log.gz").write_bytes(whole[: len(whole) - 8])
    code = main(["parse-log", "--json", str(tmp_path / "a.log.gz")])
    captured = capsys.readouterr()
    assert code == 1
    assert "a.log.gz" in captured.err
    assert json.loads(captured.out.splitlines()[-1])["event"] == "summary"


def test_an_unknown_format_is_told_with_those_that_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_text(GOOD)
    assert main(["parse-log", "--format", "megatrn", str(tmp_path / "a.log")]) == 2
    assert "megatron" in capsys.readouterr().err


def test_bytes_that_are_no_text_are_read_around(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_bytes(b"\xff\xfe\x00\x00" + GOOD.encode() + b"\x80" * 100)
    _, items = run(capsys, str(tmp_path / "a.log"))
    assert items[-1]["steps"] >= 38
