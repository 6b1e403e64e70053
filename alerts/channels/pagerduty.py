"""PagerDuty, Events API v2: one alert per dedup_key, which the trigger opens and the resolve closes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import model_validator

from alerts._text import cut
from alerts.channels._api import ChannelPlugin, ChannelSection
from alerts.channels._fit import encode, fit
from alerts.channels._http import post
from alerts.notification import Notification, Outcome, Retry
from alerts.policy import ChannelTraits
from alerts.secret import Secret, SecretError, one_of

SUMMARY_CHARACTERS = 1024
KEY_CHARACTERS = 255
BODY_BYTES = 512_000  # the limit is 512 KB
SEVERITIES = {"info": "info", "warning": "warning", "critical": "critical"}


class PagerDutySection(ChannelSection):
    """`url` is for the EU region and for tests."""

    routing_key: Secret | None = None
    routing_key_file: str | None = None
    url: str = "https://events.pagerduty.com/v2/enqueue"

    @model_validator(mode="after")
    def _has_key(self) -> PagerDutySection:
        if one_of("routing_key", self.routing_key, self.routing_key_file) is None:
            raise ValueError("routing_key or routing_key_file is missing")
        return self


@dataclass(frozen=True, slots=True)
class PagerDuty:
    section: PagerDutySection

    def send(self, notification: Notification, minimal: bool = False) -> Outcome:
        key = one_of("routing_key", self.section.routing_key, self.section.routing_key_file)
        assert key is not None
        try:
            routing_key = key.reveal()
        except SecretError as error:
            return Retry(str(error))
        body = event(notification, routing_key, minimal)
        return post(self.section.url, body, {"Content-Type": "application/json"}, notification.now, [routing_key])


def event(notification: Notification, routing_key: str, minimal: bool) -> bytes:
    """The body, within PagerDuty's limits on characters and bytes."""
    incident, action = notification.incident, notification.action
    out: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": action,
        "dedup_key": notification.dedup_key[:KEY_CHARACTERS],
    }
    if action != "trigger":
        return encode(out)
    subject = incident.subject
    out["payload"] = {
        "summary": cut(notification.title, SUMMARY_CHARACTERS),
        "source": cut(subject.node or notification.run or "runwatch", 255),
        "severity": SEVERITIES[notification.severity.label],
    }
    if minimal:
        return encode(out)
    out["payload"] |= {
        "component": cut(subject.gpu or subject.node or notification.run or "", 255),
        "group": cut(notification.run or "", 255),
        "class": incident.signature,
    }
    out["links"] = [{"href": link.url, "text": link.name} for link in notification.links]
    details: dict[str, Any] = {"page": notification.text, "what_to_do": incident.hint}
    if notification.members:
        details |= {"incidents": list(notification.members), "incident_count": notification.member_count}
    details |= {f"evidence_{key}" if key in details else key: value for key, value in incident.evidence.items()}
    out["payload"]["custom_details"] = fit(details, BODY_BYTES - len(encode(out)))
    return encode(out)


PLUGIN = ChannelPlugin("pagerduty", PagerDutySection, PagerDuty, ChannelTraits(keeps_state=True, escalates=True))
