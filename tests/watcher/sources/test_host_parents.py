"""Who started whom, without asking each process of a node each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from watcher.sources.host_parents import FORGET_EVERY, Parents


@pytest.fixture
def proc(tmp_path) -> Path:
    (tmp_path / "self").mkdir()  # no process
    return tmp_path


def start(proc: Path, pid: int, parent: int, name: str = "python") -> None:
    (proc / str(pid)).mkdir(exist_ok=True)
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} 1 1 0\n")


def end(proc: Path, pid: int) -> None:
    (proc / str(pid) / "stat").unlink()
    (proc / str(pid)).rmdir()


def test_those_that_are_there_are_told_by_who_started_them(proc):
    start(proc, 10, 1)
    start(proc, 11, 10, name="a) S 99 (b")
    parents = Parents(proc)
    assert parents.children() == {1: [10], 10: [11]}
    start(proc, 12, 10)
    end(proc, 11)
    assert parents.children() == {1: [10], 10: [12]}


def test_a_process_is_asked_once_and_again_after_a_while_for_its_number_may_be_another_ones(proc):
    start(proc, 10, 1)
    parents = Parents(proc)
    parents.children()
    start(proc, 10, 2)
    assert [parents.children() for _ in range(FORGET_EVERY)] == [{1: [10]}] * (FORGET_EVERY - 1) + [{2: [10]}]


@pytest.mark.parametrize("said", ["", "10", "10 (python", "10 (python) S", "10 (python) S x"])
def test_one_that_tells_nothing_is_left_out(proc, said):
    start(proc, 10, 1)
    start(proc, 11, 1)
    (proc / "10/stat").write_text(said)
    assert Parents(proc).children() == {1: [11]}
