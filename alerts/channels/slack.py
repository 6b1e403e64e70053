"""Slack: an incoming webhook, or `chat.postMessage` with a bot token: one thread per incident, with its picture."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import partial

from pydantic import model_validator

from alerts._text import cut
from alerts.channels._api import ChannelPlugin, ChannelSection
from alerts.channels._fit import encode
from alerts.channels._http import Answer, outcome, request, wait_seconds
from alerts.channels._slack_files import show_picture
from alerts.notification import Notification, Outcome, Rejected, Retry, Sent
from alerts.secret import Secret, SecretError, one_of
from alerts.worker import BoundedRunner

API_URL = "https://slack.com/api/chat.postMessage"
TEXT_CHARACTERS = 3_500  # Slack shows about 4,000 and cuts the rest
PICTURE_SECONDS = 10.0  # in all; the page is there already
RETRY_ERRORS = frozenset(
    {"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"}
)


class SlackSection(ChannelSection):
    """`webhook_url`, or `bot_token` and `channel`. `api_url` is for GovSlack and for tests."""

    webhook_url: Secret | None = None
    webhook_url_file: str | None = None
    bot_token: Secret | None = None
    bot_token_file: str | None = None
    channel: str | None = None
    api_url: str = API_URL

    @model_validator(mode="after")
    def _one_way(self) -> SlackSection:
        hook, token = self.hook, self.token
        if (hook is None) == (token is None):
            raise ValueError("give webhook_url (or webhook_url_file), or bot_token (or bot_token_file) with channel")
        if token is not None and not self.channel:
            raise ValueError("channel is missing: where the bot is to write, e.g. '#gpu-oncall'")
        return self

    @property
    def hook(self) -> Secret | None:
        return one_of("webhook_url", self.webhook_url, self.webhook_url_file)

    @property
    def token(self) -> Secret | None:
        return one_of("bot_token", self.bot_token, self.bot_token_file)


@dataclass(frozen=True, slots=True)
class Slack:
    section: SlackSection
    upload: BoundedRunner = field(default_factory=lambda: BoundedRunner("slack-picture"))

    def send(self, notification: Notification, minimal: bool = False) -> Outcome:
        body: dict[str, object] = {"text": text(notification, minimal)}
        headers = {"Content-Type": "application/json; charset=utf-8"}
        try:
            hook, token = self.section.hook, self.section.token
            if hook is not None:
                url = hook.reveal()
                return outcome(request(url, encode(body), headers, [url]), notification.now)
            assert token is not None
            key = token.reveal()
        except SecretError as error:
            return Retry(str(error))
        body |= {"channel": self.section.channel, "unfurl_links": False}
        if notification.receipt and not minimal:  # its thread may be gone: then it begins another
            broadcast = notification.kind in ("escalated", "resolved")
            body |= {"thread_ts": notification.receipt, "reply_broadcast": broadcast}
        headers["Authorization"] = f"Bearer {key}"
        answer = request(self.section.api_url, encode(body), headers, [key])
        posted = self._judged(answer, notification)
        if not isinstance(posted, Sent) or minimal or not isinstance(answer, Answer):
            return posted
        return self._with_picture(notification, posted, str(json.loads(answer.text).get("channel", "")), key)

    def _judged(self, answer: Answer | Outcome, notification: Notification) -> Outcome:
        """The API answers 200 with `ok: false` for most of what goes wrong."""
        judged = outcome(answer, notification.now)
        if not isinstance(answer, Answer) or not isinstance(judged, Sent):
            return judged
        try:
            said = json.loads(answer.text)
            ok, error, stamp = said.get("ok"), str(said.get("error", "")), said.get("ts")
        except (ValueError, AttributeError):
            return Retry("Slack answered something that is not JSON")
        if ok is not True:
            wait = wait_seconds(answer.retry_after, notification.now, answer.date)
            return Retry(f"Slack: {error}", wait) if error in RETRY_ERRORS else Rejected(f"Slack: {error}")
        return Sent(stamp if isinstance(stamp, str) else "")

    def _with_picture(self, notification: Notification, posted: Sent, place: str, token: str) -> Sent:
        """The page has arrived: whatever becomes of its picture, it is not sent again."""
        image, thread = notification.picture, notification.receipt or posted.receipt
        if image is None or not place or not thread:
            return posted
        root = self.section.api_url.rpartition("/")[0]
        shown = self.upload(partial(show_picture, root, token, place, thread, image), PICTURE_SECONDS)
        return posted if isinstance(shown, Sent) else replace(posted, trouble=f"no picture: {shown.error}")


def text(notification: Notification, minimal: bool) -> str:
    """The first line in bold, the rest as it is in a block; `&`, `<` and `>` are what Slack asks to escape."""
    title = _escaped(cut(notification.title, 1_000)).replace("*", "∗")
    rest = notification.text.partition("\n")[2].strip().replace("```", "'''")
    if minimal or notification.kind == "resolved" or not rest:
        return f"*{title}*"
    links = "".join(f"\n<{link.url}|{_escaped(link.name)}>" for link in notification.links)
    return f"*{title}*\n```\n{_escaped(cut(rest, TEXT_CHARACTERS))}\n```{links}"


def _escaped(line: str) -> str:
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


PLUGIN = ChannelPlugin("slack", SlackSection, Slack)
