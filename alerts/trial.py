"""A test page: the same way and form as a real one, marked as a test, and resolved right after."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from alerts.incidents import Judged, step
from alerts.notification import Notification, Outcome, Sent
from alerts.policy import Intent
from alerts.render import notification
from alerts.worker import DEADLINE_SECONDS, BoundedRunner, Channel
from detectors.verdict import Finding, Severity, Subject, firing


def trial_messages(now: float) -> tuple[Notification, Notification]:
    """The page and its end."""
    finding = Finding(
        signature="test_page",
        subject=Subject(run="test"),
        severity=Severity.CRITICAL,
        summary="This is a test of runwatch. Nothing is wrong, nothing is to be done",
        hint="If you read this at night, somebody tests at night.",
    )
    judged = Judged(signature="test_page", family="test_page", run="test", verdict=firing([finding]))
    (incident,) = step({}, [judged], now).incidents.values()
    key = f"runwatch/test-page/{int(now)}"  # never one that a real incident has
    page = Intent(channel="", kind="test", incident=incident, dedup_key=key, reason="test-page was run")
    ended = replace(incident, state="resolved", resolved_at=now, resolve_reason="the test is over")
    end = Intent(channel="", kind="resolved", incident=ended, dedup_key=key, reason="the test is over")
    return notification(page, now), notification(end, now)


def try_channel(name: str, channel: Channel, now: float) -> Outcome:
    """Sends a test page and its end; the outcome of the first that did not get through, else of the last."""
    for message in trial_messages(now):
        outcome = BoundedRunner(name)(partial(channel.send, message), DEADLINE_SECONDS)
        if not isinstance(outcome, Sent):
            break
    return outcome
