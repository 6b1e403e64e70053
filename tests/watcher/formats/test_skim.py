"""Skimming over a block says the same as reading each of its lines."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watcher.config.logs import LogPatterns
from watcher.events import LogEvent
from watcher.formats._reader import LogReader
from watcher.formats._user import UserReader

PATTERNS = [
    None,
    r"step=(\d+)",
    r"^step=(\d+)",
    r"step=(\d+)$",
    r"\bstep.(\d+)",
    r"(?i)STEP=(\d+)",
    r"a.b step=(\d+)",
    r"x[^|]*step=(\d+)",
    r"größe step=(\d+)",
    r"step=(?P<step>\d+)\s+loss=(?P<loss>\S+)",
]
FRAGMENTS = [
    b"step=7", b"\x1b[1mstep\x1b[0m=8", b"step=", b"9", b" loss=2.5", b"a\xc3\xa9b ", b"a\xffb ", b"x", b"|", b"  ",
    b"\r", b"[rank3]: ", b"2024-01-01 00:00:00 INFO ",
    b"Traceback (most recent call last):", b"RuntimeError: CUDA error",
    b'  File "a.py", line 3, in f', b" 10%|# | 1/10 [00:01<00:09, 1.0it/s]", b"noise", "größe ".encode(), b"\0",
]  # fmt: skip


def reader(pattern: str | None) -> LogReader:
    return LogReader(user=None if pattern is None else UserReader(LogPatterns(step=(pattern,))))


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(PATTERNS),
    st.lists(st.lists(st.sampled_from(FRAGMENTS), max_size=5).map(b"".join), max_size=25),
)
def test_a_block_says_what_its_lines_say(pattern: str | None, lines: list[bytes]) -> None:
    whole, single = reader(pattern), reader(pattern)
    block = b"".join(line + b"\n" for line in lines)
    expected: list[LogEvent] = []
    for number, line in enumerate(lines, 1):
        expected += single.feed(line.decode("utf-8", "replace"), number)
    got = whole.feed_block(block, 1)
    assert [e.to_json() for e in got + whole.flush()] == [e.to_json() for e in expected + single.flush()]


@pytest.mark.parametrize("pattern", [r"a[^b]*b step=(\d+)", r"(?s)a.*b step=(\d+)", r"(?:a+ )+b step=(\d+)"])
def test_a_pattern_that_looks_far_ahead_costs_bounded_time(pattern: str) -> None:
    block = b"a a a a\n" * 32_000 + b"b\n"
    begun = time.process_time()
    assert reader(pattern).feed_block(block, 1) == []
    assert time.process_time() - begun < 5
