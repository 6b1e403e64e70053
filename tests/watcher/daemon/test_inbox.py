"""What a node has pushed: each event once, told as old as it is, whatever gets lost or comes twice on the way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher.daemon.inbox import Inbox
from watcher.snapshot import MAX_EVENTS, Snapshot, XidLine


def snapshot(seqs: range, stream: str = "s", lost: int = 0) -> Snapshot:
    events = tuple(XidLine(seq=seq, age_seconds=1.0, code=79) for seq in seqs)
    return Snapshot(
        node="n",
        stream=stream,
        sent_at=100.0,
        events=events,
        next_seq=seqs.stop,
        lost_events=lost,
        gpus_age_seconds=2.0,
    )


def told(inbox: Inbox, now: float = 0.0) -> list[int]:
    answer = inbox.told(now)
    return [] if answer is None else [event.seq for event in answer.events]


@pytest.mark.parametrize(
    ("since", "follows"),
    [(None, True), ("s:5", True), ("s:3", True), ("s:6", False), ("t:5", False), ("s:", False), ("s:-1", False),
     ("s:²", False), ("", False), ("x" * 9_999, False)],
)  # fmt: skip
def test_events_must_follow_on_those_that_are_here(since, follows):
    inbox = Inbox()
    inbox.take(snapshot(range(5)), 0.0)
    assert inbox.follows(since) is follows
    assert inbox.place == "s:5"


def test_a_daemon_that_has_just_begun_wants_all_there_is():
    assert not Inbox().follows("s:3")
    assert Inbox().follows(None)
    assert Inbox().place is None


def test_what_is_told_has_aged_and_is_told_once():
    inbox = Inbox()
    inbox.take(snapshot(range(2)), 100.0)
    answer = inbox.told(112.0)
    assert (answer.gpus_age_seconds, answer.sent_at) == (14.0, 112.0)
    assert [event.age_seconds for event in answer.events] == [13.0, 13.0]
    again = inbox.told(113.0)
    assert (again.gpus_age_seconds, again.events) == (15.0, ())


def test_events_that_are_gone_on_the_node_are_counted_once():
    inbox = Inbox()
    inbox.take(snapshot(range(5)), 0.0)
    inbox.take(snapshot(range(8, 10), lost=3), 0.0)
    inbox.take(snapshot(range(8, 12), lost=8), 0.0)
    assert inbox.told(0.0).lost_events == 3
    assert inbox.told(0.0).lost_events == 0


def test_a_node_that_is_started_anew_begins_anew():
    inbox = Inbox()
    inbox.take(snapshot(range(5)), 0.0)
    inbox.take(snapshot(range(2), stream="t"), 0.0)
    assert told(inbox) == [0, 1, 2, 3, 4, 0, 1]
    assert inbox.place == "t:2"


def test_more_events_than_one_answer_holds_must_wait():
    inbox = Inbox()
    inbox.take(snapshot(range(MAX_EVENTS)), 0.0)
    assert inbox.is_full
    inbox.told(0.0)
    assert not inbox.is_full


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.booleans(), st.booleans())))
def test_each_event_comes_once_and_in_order_whatever_is_lost_on_the_way(steps):
    """Each step: new events, then a push whose request or answer may be lost, then maybe a cycle of the daemon."""
    inbox, since, next_seq, seen = Inbox(), None, 0, []
    for new, request_lost, answer_lost, cycle in [*steps, (1, False, False, True)]:
        next_seq += new
        if not request_lost:
            assert inbox.follows(since)
            first = 0 if since is None else int(since.partition(":")[2])
            inbox.take(snapshot(range(first, next_seq)), 0.0)
            if not answer_lost:
                since = inbox.place
        if cycle:
            seen += told(inbox)
    assert seen == list(range(next_seq))
