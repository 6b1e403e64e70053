"""Alertmanager, API v2. It forgets what is not said again, so an open alert is re-sent every minute and each time
stays valid for four. It forgets an end as well when it is restarted: ends are said again for a quarter of an hour."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field, StringConstraints, model_validator

from alerts._text import cut, one_line
from alerts.channels._api import ChannelPlugin, ChannelSection
from alerts.channels._fit import encode
from alerts.channels._http import post
from alerts.notification import Notification, Outcome, Retry
from alerts.policy import ChannelTraits
from alerts.secret import Secret, SecretError, one_of

RESEND_SECONDS = 60.0
VALID_SECONDS = 4 * RESEND_SECONDS
TEXT_CHARACTERS = 8_000
WATCHDOG = "RunwatchWatchdog"
LabelName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")]


class AlertmanagerSection(ChannelSection):
    """`url` is the root, e.g. http://alertmanager:9093; `labels` are put on every alert."""

    url: str
    token: Secret | None = None
    token_file: str | None = None
    labels: dict[LabelName, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_url(self) -> AlertmanagerSection:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError("url must begin with http:// or https://")
        one_of("token", self.token, self.token_file)
        return self


@dataclass(frozen=True, slots=True)
class Alertmanager:
    section: AlertmanagerSection
    valid_seconds: float = VALID_SECONDS

    def send(self, notification: Notification, minimal: bool = False) -> Outcome:
        labels = {} if minimal else self.section.labels
        return self.post(alert(notification, labels, minimal, self.valid_seconds), notification.now)

    def watchdog(self, since_at: float, now: float) -> Outcome:
        """An alert that is always there: who listens for its end hears that the daemon works no more."""
        return self.post(
            {
                "labels": {**self.section.labels, "alertname": WATCHDOG, "severity": "none"},
                "annotations": {"summary": "runwatch works; when this alert ends, it does not, or cannot tell of it"},
                "startsAt": _instant(min(since_at, now)),
                "endsAt": _instant(now + self.valid_seconds),
            },
            now,
        )

    def post(self, alert: dict[str, Any], now: float) -> Outcome:
        token = one_of("token", self.section.token, self.section.token_file)
        headers = {"Content-Type": "application/json"}
        try:
            key = token.reveal() if token is not None else ""
        except SecretError as error:
            return Retry(str(error))
        if key:
            headers["Authorization"] = f"Bearer {key}"
        return post(f"{self.section.url.rstrip('/')}/api/v2/alerts", encode([alert]), headers, now, [key])


def alert(
    notification: Notification, extra: dict[str, str], minimal: bool, valid_seconds: float = VALID_SECONDS
) -> dict[str, Any]:
    """The labels are the identity: what the key stood for at first, never a value that changes while it is open."""
    incident, face = notification.incident, notification.first_face
    labels = {
        **extra,
        "alertname": face.family,
        "severity": face.severity.label,
        "runwatch_key": notification.dedup_key,
        "run": face.run or "",
        "node": face.node or "",
        "gpu": face.gpu or "",
    }
    starts_at = min(incident.opened_at if incident.opened_at is not None else notification.at, notification.now)
    ended_at = incident.resolved_at if incident.resolved_at is not None else notification.at
    ends_at = max(
        starts_at + 1.0, ended_at if notification.kind == "resolved" else notification.now + valid_seconds
    )  # fmt: skip
    out: dict[str, Any] = {
        "labels": {name: one_line(value, 500) for name, value in labels.items() if value.strip()},
        "startsAt": _instant(starts_at),
        "endsAt": _instant(ends_at),
    }
    out["annotations"] = {"summary": cut(notification.title, 1_000)}
    if not minimal:
        out["annotations"] |= {
            "description": cut(notification.text, TEXT_CHARACTERS),
            "signature": incident.signature,
        }
        links = {link.name: link.url for link in notification.links}
        if "runbook" in links:
            out["annotations"]["runbook_url"] = links["runbook"]
        if "incident" in links:
            out["generatorURL"] = links["incident"]
    return out


def _instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


PLUGIN = ChannelPlugin(
    "alertmanager",
    AlertmanagerSection,
    Alertmanager,
    ChannelTraits(keeps_state=True, escalates=True, resend_seconds=RESEND_SECONDS),
)
