"""The watchdog's own troubles with its pages and its store, judged like any other signature."""

from __future__ import annotations

from collections.abc import Iterable

from alerts._duration import spoken
from alerts._looks import Judged
from alerts.outbox import ChannelHealth
from detectors.verdict import CLEAR, Finding, Severity, Subject, Unknown, Verdict, firing

WATCHDOG = "watchdog"
OPEN_AFTER_SECONDS = 300.0


def delivery_judgements(health: Iterable[ChannelHealth], now: float) -> list[Judged]:
    """`delivery_failed` per channel: suspect while an attempt fails, open after five minutes or a refusal."""
    return [
        Judged(
            signature=f"delivery_failed.{one.channel}", family=f"delivery_failed.{one.channel}", run=WATCHDOG,
            verdict=_delivery(one, now),
        )
        for one in health
    ]  # fmt: skip


def _delivery(one: ChannelHealth, now: float) -> Verdict:
    if one.failing_since_at is None:
        return CLEAR if one.last_success_at is not None else Unknown("nothing was sent over it yet")
    refused = one.last_rejected_at is not None and one.last_rejected_at >= one.failing_since_at
    lasted = max(0.0, now - one.failing_since_at)
    return firing(
        [
            Finding(
                signature="delivery_failed",
                family=f"delivery_failed.{one.channel}",
                subject=Subject(),
                severity=Severity.WARNING,
                stage="open" if refused or lasted >= OPEN_AFTER_SECONDS else "suspect",
                summary=f"channel {one.channel} {'refuses pages' if refused else 'takes no pages'}: {one.last_error}",
                evidence={"channel": one.channel, "pending": one.pending, "failures": one.failures,
                          "error": one.last_error, "failing_for": spoken(lasted)},
                hint=f"try: runwatch test-page --config FILE --channel {one.channel}",
                since_at=one.failing_since_at,
            )
        ]
    )  # fmt: skip


def store_judgement(error: str | None, now: float) -> Judged:
    verdict: Verdict = CLEAR
    if error is not None:
        verdict = firing(
            [
                Finding(
                    signature="store_failed",
                    subject=Subject(),
                    severity=Severity.WARNING,
                    summary=f"the daemon's memory cannot be written: {error}",
                    hint="Detecting and paging go on from memory; a restart now would forget what is open.",
                )
            ]
        )
    return Judged(signature="store_failed", family="store_failed", run=WATCHDOG, verdict=verdict)
