"""What users may write as patterns, and what they are told about the rest."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watcher.config.logs import LogPatterns
from watcher.events import LogEvent
from watcher.formats._patterns import PatternError, compile_pattern
from watcher.formats._user import UserReader


def read(patterns: dict[str, Any], *lines: str) -> list[LogEvent]:
    reader = UserReader(LogPatterns.model_validate(patterns))
    return [event for number, line in enumerate(lines, 1) for event in reader.feed(line, number)]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"step (?=\d)", "look-ahead"),
        (r"(?<!val )loss", "negative look-behind"),
        (r"(?P<a>x)(?P=a)", "back references"),
        (r"(x)\1", r"at `\\1`"),
        (r"(?>x+)", "atomic groups"),
        (r"step=(\d+", "is not closed"),
        (r"[a-", "is not closed"),
        (r"\d{5000}", "at most 1000"),
        (r"(\d{900}){900}", "at most 1000"),
        (r"a**", "two repetitions"),
        ("", "empty"),
        (r"(?:step)?", "matches nothing at all"),
        ("x" * 3_000, "at most 2000"),
    ],
)
def test_a_pattern_that_cannot_be_used_says_why(pattern: str, words: str) -> None:
    with pytest.raises(PatternError, match=words):
        compile_pattern(pattern)


def test_an_escaped_bracket_is_no_look_ahead() -> None:
    assert compile_pattern(r"\(?=x").search("(=x") is not None


def test_no_pattern_can_run_away() -> None:
    pattern = compile_pattern(r"^(\w+\s?)+(a|aa)+$")
    begun = time.process_time()
    assert pattern.search("aaa " * 5_000 + "!") is None
    assert time.process_time() - begun < 2


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40), st.text(max_size=60))
def test_any_text_is_a_pattern_or_an_error_in_words(pattern: str, line: str) -> None:
    try:
        compiled = compile_pattern(pattern)
    except PatternError:
        return
    compiled.search(line)


def test_named_groups_become_the_numbers_of_a_step() -> None:
    (event,) = read(
        {"step": r"it (?P<step>\d+)/(?P<total_steps>[\d,]+) loss (?P<loss>\S+) (?P<tokens_per_second>\S+) tok/s"},
        "it 7/1,000 loss nan 4.1e4 tok/s",
    )
    assert (event.step, event.total_steps, event.tokens_per_second) == (7, 1000, 41_000.0)
    assert event.loss is not None
    assert event.loss != event.loss


def test_a_time_in_milliseconds_is_told_in_seconds() -> None:
    (event,) = read({"step": r"it (?P<step>\d+) took (?P<step_milliseconds>\S+) ms"}, "it 7 took 1,920 ms")
    assert event.step_seconds == 1.92


def test_one_group_without_a_name_is_the_step_and_several_patterns_are_tried_in_turn() -> None:
    events = read({"step": [r"step=(\d+)", r"iter (\d+)"]}, "step=5", "iter 6", "step=x", "step=99999999999999999999")
    assert [e.step for e in events] == [5, 6]


def test_a_phase_has_its_edges_and_its_limit() -> None:
    patterns = {
        "step": r"step=(\d+)",
        "phases": [{"name": "checkpoint", "start": "saving", "end": "saved", "max_seconds": 1800}],
    }
    events = read(patterns, "saved", "saving step=3", "still saving", "saved in 8 s", "saved", "step=4")
    edges = [(e.line, e.edge, e.max_seconds) for e in events if e.event == "phase"]
    assert edges == [(2, "start", 1800), (3, "start", 1800), (4, "end", None)]
    assert [e.step for e in events if e.event == "step"] == [4]


def test_a_lost_end_marker_does_not_hold_a_phase_open() -> None:
    patterns = {"step": r"step=(\d+)", "phases": [{"name": "evaluation", "start": "eval begins", "end": "eval ends"}]}
    events = read(patterns, "eval begins", "step=1", "eval ends")
    assert [(e.event, e.edge) for e in events] == [("phase", "start"), ("step", None)]


def test_errors_and_the_end_of_the_run() -> None:
    patterns = {
        "errors": [
            r"PANIC on rank (?P<rank>\d+) at (?P<host>\S+)",
            {"pattern": "shard .* unreadable", "kind": "filesystem"},
        ],
        "finished": "bye",
    }
    first, second, end = read(patterns, "PANIC on rank 3 at node-4", "  shard 7 unreadable  ", "bye")
    assert (first.kind, first.rank, first.host) == ("other", 3, "node-4")
    assert (second.kind, second.message) == ("filesystem", "shard 7 unreadable")
    assert (end.phase, end.edge) == ("finished", "start")


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_no_line_raises(line: str) -> None:
    read(
        {
            "step": [r"(?P<step>\S+) (?P<loss>\S+)?", r"(.+)"],
            "errors": [r"(?P<rank>\S)(?P<host>\S)(?P<message>.)"],
            "phases": [{"name": "evaluation", "start": ".", "end": "[a-z]"}],
        },
        line,
    )
