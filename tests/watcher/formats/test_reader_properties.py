"""What holds for any input: nothing raises, no line costs more than its share, colours and prefixes hide nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watcher.formats._api import load_formats
from watcher.formats._reader import MAX_FORMAT_LINE, MAX_LINE, LogReader

CORPUS = Path(__file__).resolve().parents[2] / "corpus"
LINES = [line for path in sorted(CORPUS.glob("*.log")) for line in path.read_text(encoding="utf-8").split("\n") if line]
WORDS = st.sampled_from(
    ["iteration ", "step", ":", " | ", "loss", "=", "nan", "1e999", "100%|", "/", "[", "]", "{'", "'", "epoch", "it/s",
     "Traceback (most recent call last):", "\r", "\x1b[31m", '  File "', ",", ":::MLLOG {", "rank", "\x00", "9" * 400]
)  # fmt: skip


def read(lines: list[str]) -> None:
    reader = LogReader()
    for number, line in enumerate(lines, 1):
        for event in reader.feed(line, number):
            event.to_json()
    reader.flush()


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(max_size=200), max_size=8))
def test_no_text_raises(lines: list[str]) -> None:
    read(lines)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(WORDS, max_size=30).map("".join), max_size=8))
def test_no_mix_of_the_words_that_logs_are_made_of_raises(lines: list[str]) -> None:
    read(lines)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_real_line_cut_and_glued_anywhere_raises(data: st.DataObject) -> None:
    pieces = []
    for _ in range(data.draw(st.integers(1, 6))):
        line = data.draw(st.sampled_from(LINES))
        start, stop = sorted((data.draw(st.integers(0, len(line))), data.draw(st.integers(0, len(line)))))
        pieces.append(line[start:stop])
    read(["".join(pieces), *pieces])


@pytest.mark.parametrize("name", sorted(load_formats()))
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_format_raises_on_broken_lines(name: str, data: st.DataObject) -> None:
    reader = load_formats()[name].build()
    for number in range(1, data.draw(st.integers(2, 5))):
        line = data.draw(st.sampled_from(LINES))
        cut = data.draw(st.integers(0, len(line)))
        filler = data.draw(st.one_of(st.text(max_size=20), WORDS, st.just("9" * 30), st.just("-inf")))
        reader.feed(line[:cut] + filler + line[cut:], number)
    reader.flush()


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=2000))
def test_no_bytes_raise(block: bytes) -> None:
    reader = LogReader()
    reader.feed_block(block, 1)
    reader.flush()


HOSTILE = {
    "blanks": " " * MAX_LINE,
    "letters": "a" * MAX_LINE,
    "words": "loss " * (MAX_LINE // 5),
    "equal signs": "loss=" * (MAX_LINE // 5),
    "digits": "iteration 1" + "1" * MAX_LINE,
    "bars": "100%|" * (MAX_LINE // 5),
    "brackets": "[" * MAX_LINE,
    "quotes": "{'loss': " * (MAX_LINE // 9),
    "escapes": "\x1b[" * (MAX_LINE // 2),
    "numbers with colons": "1:" * (MAX_LINE // 2),
    "dots": "a." * (MAX_LINE // 2),
    "pairs": "step: 1 loss: 2 | " * (MAX_LINE // 18),
    "carriage returns": "\r" * 1_000_000,
    "prefixes": "0: [rank0]: " * (MAX_LINE // 12),
    "ten megabytes": "x" * 10_000_000,
    "many bars": "\r 10%|# | 1/10 [00:01<00:09, 1.00s/it]" * 5_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_line_costs_bounded_time(name: str) -> None:
    started = time.process_time()
    read([HOSTILE[name]])
    assert time.process_time() - started < 5.0, "CPU seconds; the usual cost is a small part of it"


FILLERS = ["a", "1 ", " ", "-", "[", "loss ", "1/1 ", "a: 1 | ", "'a': 1, "]


@pytest.mark.parametrize("name", sorted(load_formats()))
def test_no_format_runs_away_on_its_own_words(name: str) -> None:
    form = load_formats()[name]
    for hint in form.hints or ("",):
        for filler in FILLERS:
            text = (hint + filler * (MAX_FORMAT_LINE // len(filler)))[:MAX_FORMAT_LINE]
            reader = form.build()
            started = time.process_time()
            reader.feed(text, 1)
            reader.feed(text, 2)
            assert time.process_time() - started < 1.0, f"CPU seconds for {text[:40]!r}..."


def test_what_stands_beyond_a_long_line_is_still_read() -> None:
    reader = LogReader()
    reader.feed("x" * 1_000_000, 1)
    events = reader.feed(" iteration 5/ 10 | consumed samples: 40 | elapsed time per iteration (ms): 10.0 |", 2)
    assert [event.step for event in events] == [5]
