"""What happens to logs in practice, each in a sentence."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from watcher.agent import begin, follow, source, tail
from watcher.agent.follow import LogFollower
from watcher.agent.followed import FollowedEvent
from watcher.clock import FakeClock
from watcher.config.logs import LogConfig, LogPatterns

PATTERNS = LogPatterns.model_validate({"step": r"step=(\d+);", "errors": ["FATAL"], "finished": "all done"})


class Desk:
    """A follower over one folder, with its clock and what it has said."""

    def __init__(self, folder: Path, pattern: str = "*.log", **config: Any) -> None:
        self.folder, self.clock = folder, FakeClock()
        self.logs = [LogConfig.model_validate({"path": f"{folder}/{pattern}", "patterns": PATTERNS, **config})]
        self.state = folder / "state/positions.json"
        self.follower = self.start()

    def start(self) -> LogFollower:
        self.follower = LogFollower(self.logs, "node-7.cluster", self.state, self.clock)
        return self.follower

    def write(self, text: str | bytes, name: str = "train.log") -> None:
        with (self.folder / name).open("ab") as file:
            file.write(text.encode() if isinstance(text, str) else text)

    def poll(self, seconds: float = 10) -> list[FollowedEvent]:
        self.clock.advance(seconds)
        return self.follower.poll()

    def steps(self, seconds: float = 10) -> list[int | None]:
        return [e.event.step for e in self.poll(seconds) if e.event.event == "step" and not e.again]

    def error(self) -> str | None:
        (status,) = self.follower.statuses(self.clock.time())
        return status.error


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_file_that_comes_later_is_read_from_its_first_line(desk: Desk) -> None:
    assert desk.poll() == []
    assert desk.error() == "waiting: no file matches yet"
    desk.write("step=1;\nstep=2;\n")
    (first, second) = desk.poll()
    assert (first.event.step, first.offset, first.first) == (1, 0, False)
    assert (second.event.step, second.offset) == (2, 8)
    assert first.file == second.file


def test_a_single_path_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "deep/later/train.log")
    assert desk.poll() == []
    assert "does not exist yet" in str(desk.error())
    (tmp_path / "deep/later").mkdir(parents=True)
    desk.write("step=1;\n", "deep/later/train.log")
    assert desk.steps() == [1]
    assert desk.error() is None


def test_lines_from_before_are_history_and_later_ones_news(desk: Desk) -> None:
    desk.write("step=1;\nFATAL\n")
    assert [event.first for event in desk.poll()] == [True, True]
    desk.write("step=2;\n")
    assert [event.first for event in desk.poll()] == [False]


def test_of_a_huge_old_log_only_the_end_is_read(desk: Desk) -> None:
    with (desk.folder / "train.log").open("wb") as file:
        file.truncate(5 << 30)  # a hole: takes no room
        file.seek(0, os.SEEK_END)
        file.write(b"".join(b"step=%d; %s\n" % (n, b"x" * 80) for n in range(100_000)))
    seen: list[int | None] = []
    for _ in range(20):
        seen += desk.steps()
    assert seen[-1] == 99_999
    assert seen == list(range(int(str(seen[0])), 100_000))
    assert 20_000 < len(seen) < 60_000
    assert desk.follower.tally.skipped_bytes >= 5 << 30


@pytest.mark.parametrize("down", [False, True], ids=["while the agent reads", "while the agent was down"])
def test_more_than_can_be_caught_up_with_is_skipped_and_counted(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, down: bool
) -> None:
    monkeypatch.setattr(begin, "MAX_BACKLOG_BYTES", 1_000)
    monkeypatch.setattr(begin, "START_BYTES", 100)
    desk.write("step=1;\n")
    desk.poll()
    if down:
        desk.follower.close()
        desk.start()
    desk.write("".join(f"step={n};\n" for n in range(2, 1_000)))
    seen = desk.steps()
    assert seen == list(range(1_000 - len(seen), 1_000))
    assert 5 < len(seen) < 15
    assert desk.follower.tally.skipped_bytes > 8_000
    desk.write("step=1000;\n")
    assert desk.steps() == [1_000]
    assert desk.follower.tally.rotations == 0


def test_a_hole_under_a_writer_that_did_not_notice_the_truncation_is_stepped_over(desk: Desk) -> None:
    with (desk.folder / "train.log").open("wb", buffering=0) as file:  # writes where it is, not at the end
        file.write(b"step=1;\n" * 1_000)
        desk.poll()
        os.truncate(desk.folder / "train.log", 0)
        file.write(b"step=2;\n")
        assert desk.steps() == [2]
        assert desk.follower.tally.rotations == 1


def test_a_truncation_to_the_same_size_is_seen(desk: Desk) -> None:
    desk.write("step=1;\nstep=2;\n")
    desk.poll()
    (desk.folder / "train.log").write_text("step=3;\nstep=4;\n")
    assert desk.steps() == [3, 4]


def test_lives_of_a_file_that_begin_alike_have_different_names(desk: Desk) -> None:
    names = []
    for _ in range(3):
        desk.write("banner\nstep=1;\n")
        names += [event.file for event in desk.poll()]
        os.truncate(desk.folder / "train.log", 0)
        desk.poll()
    assert len(set(names)) == 3


def test_an_inode_that_is_used_again_is_another_file(desk: Desk) -> None:
    desk.write("first life\nstep=1;\n")
    (old,) = desk.poll()
    inode = (desk.folder / "train.log").stat().st_ino
    known = desk.follower._positions.get(old.file)
    assert known is not None
    tail_id = old.file.replace(f":{inode}:", ":1:")
    assert tail_id != old.file
    os.truncate(desk.folder / "train.log", 0)
    desk.write("another life\nstep=2;\nstep=3;\n")
    events = desk.poll()
    assert [e.event.step for e in events] == [2, 3]
    assert events[0].file != old.file


def test_a_moved_link_is_followed_and_moving_it_back_repeats_nothing(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "latest/train.log")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "latest").symlink_to("a")
    desk.write("step=1;\n", "a/train.log")
    assert desk.steps() == [1]
    for target, step in (("b", 2), ("a", 3), ("b", 4)):
        (tmp_path / "new").symlink_to(target)
        (tmp_path / "new").rename(tmp_path / "latest")
        desk.write(f"step={step};\n", f"{target}/train.log")
        assert desk.steps() == [step]


def test_the_last_lines_of_a_renamed_file_come_before_those_of_the_new_one(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "train.log")
    desk.write("step=1;\n")
    desk.poll()
    (tmp_path / "train.log").rename(tmp_path / "train.log.1")
    desk.write("step=2;\n", "train.log.1")
    desk.write("step=3;\n")
    assert desk.steps() == [2, 3]


def test_a_deleted_file_is_read_to_its_end_and_let_go(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "train.log")
    with (tmp_path / "train.log").open("wb", buffering=0) as file:
        file.write(b"step=1;\n")
        desk.poll()
        (tmp_path / "train.log").unlink()
        file.write(b"step=2;\n")
        assert desk.steps() == [2]
    for _ in range(3):
        assert desk.poll(200) == []
    assert not desk.follower._sources[f"{tmp_path}/train.log"].files()


def test_rotated_names_that_match_the_wildcard_are_not_read_twice(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "train.log*")
    desk.write("step=1;\nstep=2;\n")
    assert desk.steps() == [1, 2]
    (tmp_path / "train.log").rename(tmp_path / "train.log.1")
    desk.write("step=3;\n")
    assert desk.steps() == [3]
    (tmp_path / "train.log.2").write_bytes((tmp_path / "train.log").read_bytes())  # copytruncate
    os.truncate(tmp_path / "train.log", 0)
    desk.write("step=4;\n")
    assert desk.steps() == [4]
    for _ in range(40):  # past the time after which renamed files are closed and found again
        assert desk.steps(20) == []


def test_two_names_of_one_file_are_one_log(desk: Desk) -> None:
    desk.write("step=1;\n")
    (desk.folder / "latest.log").symlink_to("train.log")
    assert desk.steps() == [1]
    desk.write("step=2;\n")
    assert desk.steps() == [2]


def test_compressed_files_are_left_alone_and_a_misnamed_one_is_told(desk: Desk) -> None:
    desk.write(b"\x1f\x8b\x08\x00", "old.log.gz")
    desk.write(b"\x1f\x8b\x08\x00", "old.log")
    assert desk.poll() == []
    assert "compressed" in str(desk.error())


def test_utf_16_is_refused_in_words(desk: Desk) -> None:
    desk.write("step=1;\n".encode("utf-16"))
    assert desk.poll() == []
    assert "UTF-16" in str(desk.error())


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"\xff\xfe\x80 step=5; \xc3\n", "bad UTF-8"),
        (b"\xef\xbb\xbfstep=5;\n", "a byte order mark"),
        (b"\0\0\0\0step=5;\n", "NUL bytes"),
        (b"step=5;\r\n", "a Windows line end"),
        (b"\x1b[32mstep\x1b[0m=5;\n", "colours"),
        ("é".encode() * 10 + b" step=5;\n", "letters of several bytes"),
        (b"step=5; " + b"y" * 300_000 + b"\n", "a line of 300 kB"),
    ],
)
def test_strange_bytes_hide_no_step(desk: Desk, line: bytes, why: str) -> None:
    desk.poll()
    desk.write(line[:3])
    desk.poll()
    desk.write(line[3:] + b"step=6;\n")
    assert desk.steps() == [5, 6], why


def test_a_line_without_an_end_takes_bounded_room_and_is_counted(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "train.log")
    desk.poll()
    for _ in range(50):
        desk.write("x" * 1_000_000)
        assert desk.poll() == []
    desk.write("\nstep=1;\n")
    assert desk.steps() == [1]
    assert desk.follower.tally.long_lines == 1


def test_another_encoding_is_read_when_it_is_named(tmp_path: Path) -> None:
    patterns = LogPatterns(step=r"größe step=(\d+)")
    desk = Desk(tmp_path, encoding="latin-1", patterns=patterns)
    desk.write("größe step=1\n".encode("latin-1"))
    (event,) = desk.poll()
    assert event.event.step == 1


def test_an_error_without_a_line_end_is_told_after_a_quiet_time_and_only_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "train.log")
    desk.poll()
    desk.write("step=1;\nstep=12; FATAL")
    assert [e.event.event for e in desk.poll(1)] == ["step"]
    assert desk.poll(5) == []
    (error,) = desk.poll(6)
    assert (error.event.event, error.offset) == ("error", 8)
    desk.write("34 more\nstep=13;\n")
    later = desk.poll()
    assert [e.event.event for e in later] == ["step", "step"]
    assert [e.event.step for e in later] == [12, 13]


def test_a_restart_neither_loses_nor_doubles_and_knows_what_it_was_reading(tmp_path: Path) -> None:
    desk = Desk(tmp_path, patterns=None)
    desk.write(
        "Traceback (most recent call last):\n"
        '  File "train.py", line 3, in <module>\n    main()\n'
        '  File "train.py", line 2, in main\n    raise ValueError("no such shard")\n'
    )
    assert [e for e in desk.poll(1) if e.event.event == "error"] == []
    desk.follower.close()
    desk.start()
    desk.write("ValueError: no such shard\n")
    events = [e for e in desk.poll(1) + desk.poll(20) if e.event.event == "error"]
    assert [e.event.kind for e in events] == ["python_exception"]
    assert events[0].event.message is not None
    assert "no such shard" in events[0].event.message
    desk.follower.close()
    desk.start()
    again = desk.poll() + desk.poll()
    assert [(e.event.kind, e.offset, e.again) for e in again] == [("python_exception", events[0].offset, True)]


def test_what_was_told_just_before_a_restart_is_told_again_under_its_place_and_old_lines_are_not(desk: Desk) -> None:
    desk.poll()
    desk.write("step=1;\nstep=2;\n")
    before = desk.poll()
    desk.follower.close()
    desk.write("step=3;\n")
    desk.start()
    after = desk.poll()
    assert [(e.event.step, e.again) for e in after] == [(1, True), (2, True), (3, False)]
    assert [(e.file, e.offset) for e in after[:2]] == [(e.file, e.offset) for e in before]
    assert desk.poll() == []
    desk.follower.close()
    os.utime(desk.folder / "train.log", (desk.clock.time() - 3_600,) * 2)
    desk.start()
    assert desk.poll() == [], "nobody waits for what was said an hour ago"


def test_a_new_log_that_came_while_the_agent_was_down_is_news(desk: Desk) -> None:
    desk.write("step=1;\n")
    desk.poll()
    desk.follower.close()
    desk.write("FATAL\n", "other.log")
    desk.start()
    (event,) = [event for event in desk.poll() if not event.again]
    assert (event.event.event, event.first) == ("error", False)


def test_what_was_polled_but_not_taken_comes_again_after_a_crash(desk: Desk) -> None:
    desk.poll()
    desk.write("step=1;\n")
    assert desk.steps() == [1]
    desk.start()  # without close
    assert desk.steps() == [1]


def test_a_broken_state_file_costs_the_positions_only(desk: Desk) -> None:
    desk.write("step=1;\n")
    desk.state.parent.mkdir()
    desk.state.write_text('{"version": 1, "files"')
    desk.start()
    assert desk.steps() == [1]


def test_a_full_disk_does_not_stop_the_reading(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    desk.write("step=1;\n")
    assert desk.steps() == [1]
    desk.write("step=2;\n")
    assert desk.steps() == [2]
    assert desk.follower.problem is not None
    assert "No space left" in desk.follower.problem


@pytest.mark.parametrize("code", [errno.ESTALE, errno.EIO])
def test_a_failing_file_system_is_said_in_words_and_tried_again_with_pauses(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    desk.write("step=1;\n")
    assert desk.steps() == [1]
    real, calls = os.pread, 0

    def broken(*_: Any) -> bytes:
        nonlocal calls
        calls += 1
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(tail.os, "pread", broken)
    for _ in range(100):
        assert desk.poll(1) == []
    assert calls < 20
    assert desk.error()
    monkeypatch.setattr(tail.os, "pread", real)
    desk.write("step=2;\n")
    assert desk.steps(60) == [2]
    assert desk.error() is None
    assert desk.follower.tally.errors > 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_told(desk: Desk) -> None:
    desk.write("step=1;\n")
    (desk.folder / "train.log").chmod(0)
    desk.poll()
    assert "permission denied" in str(desk.error())


@pytest.mark.parametrize("kind", ["folder", "pipe", "link in a circle"])
def test_what_is_no_file_neither_blocks_nor_raises(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "train.log"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("train.log")
    desk = Desk(tmp_path, "train.log")
    assert desk.poll() == []
    assert desk.error()


def test_a_flood_leaves_room_for_the_others(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "POLL_BYTES", 1 << 20)
    desk.poll()
    desk.write("noise\n" * 1_000_000, "a-flood.log")
    for name in ("b.log", "c.log"):
        desk.write("step=1;\n", name)
    assert desk.steps() == [1, 1]


def test_an_idle_file_is_closed_and_taken_up_again_when_it_grows(desk: Desk) -> None:
    desk.write("step=1;\n")
    desk.poll()
    desk.poll(source.IDLE_SECONDS + 10)
    assert not desk.follower._sources[f"{desk.folder}/train.log"].files()
    desk.write("step=2;\n")
    assert desk.steps() == [2]


def test_more_files_than_can_be_followed_are_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "MAX_FILES", 3)
    for n in range(5):
        desk.write("step=1;\n", f"{n}.log")
    assert len(desk.steps()) == 3
    assert any("2 files too many" in str(s.error) for s in desk.follower.statuses(0))


def test_the_status_shows_the_last_lines_without_what_a_terminal_would_obey(desk: Desk) -> None:
    desk.poll()
    desk.write("old\n" * 30 + "\x1b[31mred\x1b[0m\x07 step=3;\r\n" + "w" * 5_000 + "\n 1%|\r 2%|\r 3%| now\r")
    desk.poll()
    (status,) = desk.follower.statuses(desk.clock.time() + 30)
    assert status.tail[-3:] == ("red step=3;", "w" * 400, " 2%|")
    assert len(status.tail) <= 20
    assert status.last_line_age_seconds == 30
    assert (status.lines, status.steps) == (32, 1)


def test_the_node_name_in_a_path_finds_the_file_and_names_the_host(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "job-%N.out")
    desk.write("step=1;\n", "job-node-7.out")
    desk.write("step=2;\n", "job-node-8.out")
    (event,) = desk.poll()
    assert (event.event.step, event.event.host) == (1, "node-7.cluster")
