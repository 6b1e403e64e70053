"""Every channel over HTTP, ready to be put through the same contract."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from alerts.channels.alertmanager import Alertmanager, AlertmanagerSection
from alerts.channels.apprise import Apprise, AppriseSection
from alerts.channels.pagerduty import PagerDuty, PagerDutySection
from alerts.channels.slack import Slack, SlackSection
from alerts.channels.webhook import Webhook, WebhookSection
from alerts.notification import Kind, Link, Notification
from alerts.policy import Intent
from alerts.render import notification
from alerts.secret import Secret
from alerts.worker import Channel
from tests.alerts.http_script import Answer
from tests.alerts.incident_samples import T0, Life, finding, fires

SECRET = "s3cret-T0KEN-never-shown"
KEY = "tr7/stall"


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[str], Channel]  # from the URL of the server
    good: Answer
    keyed: bool = True  # its body carries the dedup key
    limit: int = 500_000
    tells_status: bool = True  # an answer's status and Retry-After reach us

    def __str__(self) -> str:
        return self.name


CASES = [
    Case(
        "pagerduty",
        lambda url: PagerDuty(PagerDutySection(routing_key=Secret(SECRET), url=f"{url}/v2/enqueue")),
        Answer(202, "{}"),
        limit=524_288,
    ),
    Case(
        "webhook",
        lambda url: Webhook(WebhookSection(url=Secret(f"{url}/hook/{SECRET}"), secret=Secret(SECRET))),
        Answer(204),
    ),
    Case(
        "slack_webhook",
        lambda url: Slack(SlackSection(webhook_url=Secret(f"{url}/services/{SECRET}"))),
        Answer(200, "ok"),
        keyed=False,
        limit=40_000,
    ),
    Case(
        "slack_bot",
        lambda url: Slack(SlackSection(bot_token=Secret(SECRET), channel="#gpu", api_url=f"{url}/api/post")),
        Answer(200, '{"ok": true, "ts": "17.1"}'),
        keyed=False,
        limit=40_000,
    ),
    Case(
        "alertmanager",
        lambda url: Alertmanager(AlertmanagerSection(url=url, token=Secret(SECRET))),
        Answer(200),
        limit=100_000,
    ),
    Case(
        "apprise",
        lambda url: Apprise(AppriseSection(url=Secret(f"{url.replace('http', 'json')}/{SECRET}"))),
        Answer(200),
        keyed=False,
        limit=100_000,
        tells_status=False,
    ),
]


def sample(kind: Kind = "opened", **changes: Any) -> Notification:
    life = Life()
    life.at(0, fires(finding(**{"hint": "look at n3", "evidence": {"power_watts_median": 87.0}} | changes)))
    (incident,) = life.incidents.values()
    intent = Intent(channel="x", kind=kind, incident=incident, dedup_key=KEY, reason="it moved on")
    made = notification(intent, T0, public_url="https://runwatch.example")
    assert made.links[0] == Link("runbook", "https://runwatch.example/docs/low_power_deadlock")
    return made
