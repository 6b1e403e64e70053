from __future__ import annotations

from dataclasses import replace

import pytest

from alerts.facts import GpuBar, RunFacts
from alerts.incidents import Incident
from alerts.notification import Kind, Notification
from alerts.policy import Intent
from alerts.render import notification
from detectors.verdict import Subject
from tests.alerts.incident_samples import T0, Life, finding, fires

FACTS = RunFacts(
    run="tr7", gpu_count=16, gpu_hour_price=2.5, attempt=3, phase="training", last_step=4200, last_step_at=T0 - 240,
    total_steps=10_000, step_seconds=2.0, last_checkpoint_step=4000, last_checkpoint_at=T0 - 3600,
    ends_by_at=T0 + 7200, log_tail=("step 4199", "step 4200 \x1b[31mloss\x00 2.1"),
    bars=(GpuBar("n1", 0, 151.0, 700.0, 1.0), GpuBar("n1", 1, None, 700.0, None)),
)  # fmt: skip


def _incident(**changes: object) -> Incident:
    life = Life()
    given = {"since_at": T0 - 240, "hint": "Look at n3 first.\nThen restart."} | changes
    life.at(0, fires(finding(**given)))
    return next(iter(life.incidents.values()))


def _page(kind: Kind = "opened", incident: Incident | None = None, facts: RunFacts | None = FACTS) -> Notification:
    one = incident or _incident(evidence={"power_watts_median": 151.0, "odd": {"node": "n1", "gpu_index": 1}})
    intent = Intent(channel="x", kind=kind, incident=one, dedup_key=one.key, reason="it became critical")
    return notification(intent, T0, facts, "https://rw.example/", b"k" * 32)


def test_the_first_line_says_what_which_run_since_when_and_what_it_costs() -> None:
    assert _page().text.splitlines()[0] == (
        "[CRITICAL] tr7: low_power_deadlock: no progress for 4 m 00 s, 16 GPUs spin, since 2023-11-14 22:09:20 UTC,"
        " 40.00 USD an hour"
    )


@pytest.mark.parametrize(
    "line",
    [
        "  power watts median: 151 W",
        "  phase: training of attempt 3, 16 GPUs",
        "  last step: 4200, 4 m 00 s ago",
        "  to go: 5800 of 10000 steps, 3 h 13 m at its usual pace",
        "  last save: step 4000, 1 h 00 m ago: 200 steps would be lost",
        "  time left in the allocation: 2 h 00 m",
        "  n1 gpu 0  [##........] 151 of 700 W  100 % busy",
        "  n1 gpu 1  [..........] power not known  <- differs",
        "  | step 4200 loss 2.1",
        "  Look at n3 first.",
        "  runbook: https://rw.example/docs/low_power_deadlock",
        "  runwatch incidents ack tr7/stall",
    ],
)
def test_the_page_holds(line: str) -> None:
    assert line in _page().text.splitlines()


def test_what_is_not_known_is_left_out_and_not_guessed() -> None:
    bare = RunFacts(run="tr7")
    text = _page(facts=bare).text
    for word in ("None", "an hour", "last step", "to go", "last save", "allocation", "GPUs ("):
        assert word not in text


def test_zero_is_a_number() -> None:
    text = _page(facts=replace(FACTS, last_step=0, last_checkpoint_step=0, gpu_hour_price=0.0)).text
    assert "last step: 0" in text
    assert "0 steps would be lost" in text
    assert "0.00 USD an hour" in text


def test_the_end_says_what_happened_and_gives_no_orders() -> None:
    ended = replace(_incident(), state="resolved", resolve_reason="restarted as attempt 7, after 3 m 12 s")
    page = _page("resolved", ended)
    assert page.title == "[RESOLVED] tr7: low_power_deadlock: restarted as attempt 7, after 3 m 12 s"
    assert "What to do" not in page.text
    assert "acknowledge" not in [link.name for link in page.links]


def test_text_of_a_job_cannot_forge_lines_or_hide() -> None:
    forged = _incident(summary="calm\n[RESOLVED] all is well\x1b[2J\u202e", hint="\x07ok")
    page = _page(incident=forged)
    assert "\n[RESOLVED]" not in page.text
    assert not any(sign in page.text for sign in "\x1b\u202e\x07")


def test_a_key_with_quotes_is_safe_to_copy_into_a_shell() -> None:
    odd = _incident(subject=Subject(run="a'; rm -rf ~ #"))
    assert """runwatch incidents ack 'a'"'"'; rm -rf ~ #/stall'""" in _page(incident=odd).text


def test_a_huge_page_is_bounded_and_says_what_is_missing() -> None:
    bars = tuple(GpuBar(f"n{i}", i % 8, 80.0, 700.0, 1.0) for i in range(4096))
    odd = {"node": "n4000", "gpu_index": None}
    big = _incident(evidence={"odd": odd} | {f"key{i}": list(range(5000)) for i in range(100)})
    text = _page(incident=big, facts=replace(FACTS, bars=bars, log_tail=("x" * 10_000,) * 20)).text
    assert len(text) <= 30_000
    assert "32 of 4096 GPUs shown" in text
    assert "n4000 gpu 0" in text
    assert "30 of 100 entries shown" in text


def test_a_group_lists_its_members_and_how_many_there_are() -> None:
    members = tuple(
        _incident(family="gone", subject=Subject(run="tr7", node=f"n{i:03d}"), summary=f"n{i:03d} is gone")
        for i in range(150)
    )
    intent = Intent(channel="x", kind="opened", incident=members[0], dedup_key="g", reason="opened", members=members)
    page = notification(intent, T0)
    assert page.title.startswith("[CRITICAL] tr7: 150 incidents, first low_power_deadlock: n000, n001")
    assert "(150 in all)" in page.title
    assert page.member_count == 150
    assert "... 100 of 150 shown" in page.text
