"""One incident as Markdown: what happened when, who was told, the evidence; nothing from a log becomes markup."""

from __future__ import annotations

from dataclasses import replace

from markdown_it import MarkdownIt

from alerts.outbox import Delivery
from alerts.policy import Intent
from alerts.postmortem import postmortem
from alerts.render import notification
from tests.alerts.test_actions import NOW, incident

EVIL = "x | <script>alert(1)</script> [a](javascript:b) `c` \n# no heading\n```\x1b[31m"
ONE = incident(
    "low_power_deadlock",
    node=None,
    summary="Spin signature: 16 of 16 GPUs",
    since_at=NOW - 900,
    resolved_at=NOW,
    resolve_reason="moved on by itself after 15 m",
    acknowledged_at=NOW - 100,
    acknowledged_by="ada",
    hint="Take stacks.",
    evidence={
        "last_progress_at": NOW - 900, "last_step": 4711, "gpus_total": 16,
        "odd": {"node": "n1", "gpu_index": 0}, "log_tail": ["iteration 4711", EVIL],
        "gpus": [
            {"node": "n1", "index": 0, "power_watts": 85.2, "utilization_ratio": 1.0, "learnt_power_watts": 340.0}
        ],
    },
)  # fmt: skip


def transition(at: float, event: str, **more: str) -> dict[str, object]:
    return {"at": at, "event": event, "id": ONE.id, "severity": "critical", "summary": "", "reason": "", **more}


def told(state: str = "sent", error: str = "") -> Delivery:
    intent = Intent(channel="oncall", kind="opened", incident=ONE, dedup_key=ONE.key, reason="")
    page = notification(intent, NOW, None, "https://rw.example", b"k" * 32)
    return Delivery(
        id=1, channel="oncall", notification=page, created_at=NOW - 199, due_at=NOW, attempts=3,
        state=state, error=error, finished_at=NOW - 190,  # type: ignore[arg-type]
    )  # fmt: skip


def test_the_story_is_told_in_order_of_time():
    steps = [
        transition(NOW - 200, "opened"),
        transition(NOW, "resolved", reason="moved on"),
        transition(NOW - 300, "x"),
    ]
    other = {**transition(NOW - 5000, "opened", reason="another opening"), "id": "other"}
    text = postmortem(ONE, [*steps, other], [told()], NOW)
    timeline = text.partition("## Timeline")[2].partition("##")[0]
    order = ["last progress of the run", "opened as critical", "acknowledged", "resolved as critical"]
    assert sorted(order, key=timeline.index) == order
    assert "another opening" not in text
    assert "sent after 3 attempts" in text
    assert "| n1 | 0 | 85 W | 340 W | 100 % | **differs** |" in text
    assert "| last step | 4711 |" in text
    assert "* runbook: <https://rw.example/docs/low_power_deadlock>" in text
    assert "acknowledge:" not in text
    assert "lasted | 15 m 00 s" in text
    assert "_To be written._" in text


def test_nothing_from_a_log_or_a_person_becomes_markup():
    bad = replace(ONE, summary=EVIL, hint=EVIL, acknowledged_by=EVIL, evidence={**ONE.evidence, EVIL: EVIL})
    text = postmortem(bad, [transition(NOW, "updated", reason=EVIL)], [told("failed", EVIL)], NOW)
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert "<script>" not in html
    assert "javascript:" not in html.replace("(javascript:", "")
    assert html.count("<a ") == html.count('<a href="https://rw.example/') == 2
    assert "no heading</h1>" not in html.replace("# no heading", "")
    assert "\x1b" not in text


def test_an_incident_that_goes_on_and_was_told_to_nobody_is_a_whole_page_too():
    bare = replace(ONE, resolved_at=None, resolve_reason="", acknowledged_at=None, acknowledged_by=None, evidence={})
    text = postmortem(bare, [], [], NOW)
    assert "resolved | not yet" in text
    assert "Who was told" not in text
