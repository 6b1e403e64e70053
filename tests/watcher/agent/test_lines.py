from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher.agent.lines import MAX_PENDING_BYTES, LineSplitter, Piece


def texts(pieces: list[Piece], kind: str = "lines") -> list[bytes]:
    return [piece.data for piece in pieces if piece.kind == kind]


def test_a_line_is_given_only_when_it_has_ended() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"step 12") == []
    assert splitter.feed(b"345 loss") == []
    assert splitter.feed(b" 2.1\nnext") == [Piece("lines", b"step 12345 loss 2.1\n", 0, 1)]
    assert splitter.offset == len(b"step 12345 loss 2.1\n")


def test_states_of_a_redrawn_line_come_as_they_end() -> None:
    splitter = LineSplitter()
    pieces = splitter.feed(b"\r 1%| 1/100\r 2%| 2/100\r 3%| 3/1")
    assert [(p.data, p.offset, p.number) for p in pieces] == [(b" 1%| 1/100", 1, 1), (b" 2%| 2/100", 12, 1)]
    assert splitter.feed(b"00\rdone\n") == [Piece("lines", b" 3%| 3/100\rdone\n", 23, 1)]


def test_a_carriage_return_at_the_end_waits_for_the_newline_that_may_follow() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"a line of windows\r") == []
    assert texts(splitter.feed(b"\n")) == [b"a line of windows\r\n"]


@pytest.mark.parametrize(
    ("earlier", "left", "taken"),
    [
        ("a bar that ends as the one before", (b"\r 1/9 [00:01]\r 2/9 [00:02]"), [b" 2/9 [00:02]"]),
        ("a bar cut within its total", b"\r 1/9000 [00:01]\r 2/9", []),
        ("a bar cut within its number, digits before it too", b"\rstep 100\rstep 10", []),
        ("the first state of all has nothing to compare with", b"\r 1/9 [00:01", []),
    ],
)
def test_a_quiet_bar_is_taken_when_it_looks_whole(earlier: str, left: bytes, taken: list[bytes]) -> None:
    splitter = LineSplitter()
    splitter.feed(left)
    assert texts(splitter.settle(), "part") == taken, earlier
    assert texts(splitter.settle(), "part") == [], "said twice"


def test_a_quiet_unended_line_is_shown_once_and_comes_whole_later() -> None:
    splitter = LineSplitter()
    splitter.feed(b"RuntimeError: CUDA")
    assert splitter.settle() == [Piece("fragment", b"RuntimeError: CUDA", 0, 1)]
    assert splitter.settle() == []
    assert splitter.feed(b" error\n") == [Piece("lines", b"RuntimeError: CUDA error\n", 0, 1)]


def test_of_a_huge_line_the_beginning_is_kept_and_the_rest_counted() -> None:
    splitter = LineSplitter()
    for _ in range(100):
        assert splitter.feed(b"x" * 100_000) == []
    (piece,) = splitter.feed(b"tail\nstep 1\n")[:1]
    assert piece.data == b"x" * MAX_PENDING_BYTES + b"\n"
    assert splitter.long_lines == 1
    assert splitter.lines == 2
    assert splitter.offset == 10_000_000 + len(b"tail\nstep 1\n")


def test_a_run_of_nul_bytes_hides_no_line() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"\0" * 200_000) == []
    (piece,) = splitter.feed(b"\0\0step 7\n")
    assert piece.data.strip(b"\0") == b"step 7\n"


def test_a_start_in_the_middle_drops_the_broken_first_line() -> None:
    splitter = LineSplitter(1_000, inside_a_line=True)
    assert splitter.feed(b"ep 12 loss") == []
    assert splitter.feed(b"=3\nstep 13\n") == [Piece("lines", b"step 13\n", 1_003 + 10, 1)]


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(0, 2**40))
def test_lines_do_not_depend_on_how_the_bytes_were_cut(chunks: list[bytes], offset: int) -> None:
    whole = b"".join(chunks)
    splitter = LineSplitter(offset)
    pieces = [piece for chunk in chunks for piece in splitter.feed(chunk)]
    for piece in pieces:  # every piece stands in the file where it says
        at = piece.offset - offset
        assert whole[at : at + len(piece.data)] == piece.data
    assert splitter.lines == whole.count(b"\n")
    starts = [piece.offset for piece in pieces]
    assert starts == sorted(set(starts))
    plain = whole.replace(b"\r", b"")
    if plain == whole:
        given_out = b"".join(texts(pieces))
        assert given_out.replace(b"\0", b"") == whole[: whole.rfind(b"\n") + 1].replace(b"\0", b"")
