"""Everything that Apprise reaches: Teams workflows, Discord, Telegram, ntfy, Pushover, SMS and a hundred more."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import model_validator

from alerts._text import cut
from alerts.channels._api import ChannelPlugin, ChannelSection
from alerts.notification import Notification, Outcome, Rejected, Retry, Sent
from alerts.secret import Secret, SecretError, required

if TYPE_CHECKING:
    from apprise import NotifyType
    from apprise.attachment.base import AttachBase

TITLE_CHARACTERS = 250
ROOM_SHARE = 0.9  # of what a service takes: some count after escaping
CUT = "\n… (cut)"


class AppriseSection(ChannelSection):
    """`url`: one Apprise URL, e.g. ntfys://topic or discord://ID/TOKEN."""

    url: Secret | None = None
    url_file: str | None = None

    @model_validator(mode="after")
    def _has_url(self) -> AppriseSection:
        required("url", self.url, self.url_file)
        return self


@dataclass(frozen=True, slots=True)
class Apprise:
    section: AppriseSection

    def send(self, notification: Notification, minimal: bool = False) -> Outcome:
        import apprise  # on first use: it knows a hundred services

        logging.getLogger("apprise").setLevel(logging.CRITICAL)  # its lines may hold the URL
        try:
            url = required("url", self.section.url, self.section.url_file).reveal()
        except SecretError as error:
            return Retry(str(error))
        target = apprise.Apprise()
        if not target.add(url):
            return Rejected("Apprise does not know this kind of URL")
        service = str(getattr(target[0], "service_name", "the service"))
        room = target[0].body_maxlen
        if target[0].overflow_mode == apprise.OverflowMode.UPSTREAM:
            target[0].overflow_mode = apprise.OverflowMode.TRUNCATE
        else:  # the URL says what is to become of long texts
            room = len(notification.text) * 2
        title, body = fitted(notification, minimal, target[0].title_maxlen, room)
        done = target.notify(
            title=title,
            body=body,
            notify_type=_type_of(notification),
            body_format=apprise.NotifyFormat.TEXT,
            attach=_picture(notification) if target[0].attachment_support and not minimal else None,
        )
        return Sent() if done else Retry(f"Apprise could not deliver to {service}")


def fitted(notification: Notification, minimal: bool, title_room: int, body_room: int) -> tuple[str, str]:
    """Title and body within what the service takes: Discord, Telegram and Teams refuse what is longer as a whole.

    `title_room` 0: it knows no titles.
    """
    first, _, rest = notification.text.partition("\n")
    rest = "" if minimal else rest.strip()
    room = int(body_room * ROOM_SHARE)
    mark = CUT if room > 200 else "…"
    if title_room <= 0:
        return "", cut(f"{first}\n{rest}".rstrip(), room, mark)
    return cut(first, min(TITLE_CHARACTERS, title_room)), cut(rest or first, room, mark)


def _picture(notification: Notification) -> AttachBase | None:
    from apprise.attachment.memory import AttachMemory

    image = notification.picture
    make: Callable[..., AttachBase] = AttachMemory  # its constructor has no types
    return make(content=image, name="gpus.png", mimetype="image/png") if image is not None else None


def _type_of(notification: Notification) -> NotifyType:
    from apprise import NotifyType

    if notification.kind == "resolved":
        return NotifyType.SUCCESS
    return {"critical": NotifyType.FAILURE, "warning": NotifyType.WARNING}.get(
        notification.severity.label, NotifyType.INFO
    )


PLUGIN = ChannelPlugin("apprise", AppriseSection, Apprise)
