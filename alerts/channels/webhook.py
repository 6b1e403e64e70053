"""A signed JSON POST to anywhere. `X-Runwatch-Signature: t=SECONDS,v1=HMAC-SHA256(secret, "SECONDS.BODY")`."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Any

from pydantic import model_validator

from alerts.channels._api import ChannelPlugin, ChannelSection
from alerts.channels._fit import encode, fit
from alerts.channels._http import post
from alerts.notification import Notification, Outcome, Retry
from alerts.policy import ChannelTraits
from alerts.secret import Secret, SecretError, one_of, required

BODY_BYTES = 500_000


class WebhookSection(ChannelSection):
    """`secret` signs the body; without one it goes unsigned."""

    url: Secret | None = None
    url_file: str | None = None
    secret: Secret | None = None
    secret_file: str | None = None

    @model_validator(mode="after")
    def _has_url(self) -> WebhookSection:
        required("url", self.url, self.url_file)
        one_of("secret", self.secret, self.secret_file)
        return self


@dataclass(frozen=True, slots=True)
class Webhook:
    section: WebhookSection

    def send(self, notification: Notification, minimal: bool = False) -> Outcome:
        section = self.section
        body = encode(fit(message(notification, minimal), BODY_BYTES))
        headers = {"Content-Type": "application/json", "User-Agent": "runwatch"}
        secret = one_of("secret", section.secret, section.secret_file)
        try:
            url = required("url", section.url, section.url_file).reveal()
            key = secret.reveal() if secret is not None else ""
        except SecretError as error:
            return Retry(str(error))
        if key:
            headers["X-Runwatch-Signature"] = signature(key, body, notification.now)
        return post(url, body, headers, notification.now, [key], any_answer=True)


def signature(secret: str, body: bytes, at: float) -> str:
    stamp = str(int(at))
    digest = hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return f"t={stamp},v1={digest}"


def message(notification: Notification, minimal: bool) -> dict[str, Any]:
    """Version 1. Fields may be added; none goes away or changes its meaning."""
    incident, subject = notification.incident, notification.incident.subject
    out: dict[str, Any] = {
        "version": 1,
        "kind": notification.kind,
        "action": notification.action,
        "dedup_key": notification.dedup_key,
        "at": notification.at,
        "title": notification.title,
        "severity": notification.severity.label,
        "signature": incident.signature,
        "run": notification.run,
        "subject": {"node": subject.node, "gpu": subject.gpu, "gpu_index": subject.gpu_index},
    }
    if not minimal:
        out |= {
            "summary": incident.summary,
            "text": notification.text,
            "evidence": dict(incident.evidence),
            "hint": incident.hint,
            "opened_at": incident.opened_at,
            "resolved_at": incident.resolved_at,
            "resolve_reason": incident.resolve_reason,
            "links": [{"name": link.name, "url": link.url} for link in notification.links],
            "members": list(notification.members),
            "picture_png_base64": notification.picture_base64,
        }
    return out


PLUGIN = ChannelPlugin("webhook", WebhookSection, Webhook, ChannelTraits(keeps_state=True))
