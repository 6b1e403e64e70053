"""A picture in a Slack thread, in the three calls that Slack wants; the bot needs the scope `files:write`."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from alerts.channels._http import Answer, outcome, request
from alerts.notification import Outcome, Rejected, Retry, Sent

NAME = "gpus.png"
TITLE = "power and utilization per GPU over the last half hour"
FORM = "application/x-www-form-urlencoded"


class _Failed(Exception):
    """One line."""


def show_picture(root: str, token: str, channel_id: str, thread: str, image: bytes) -> Outcome:
    """`root`: where the API's methods lie. Rejected where it did not get there."""
    try:
        place = _call(f"{root}/files.getUploadURLExternal", token, {"filename": NAME, "length": len(image)})
        url, file_id = str(place.get("upload_url", "")), str(place.get("file_id", ""))
        _taken(request(url, image, {"Content-Type": "application/octet-stream"}, [url]))
        files = json.dumps([{"id": file_id, "title": TITLE}])
        shown = {"files": files, "channel_id": channel_id, "thread_ts": thread}
        _call(f"{root}/files.completeUploadExternal", token, shown)
    except _Failed as failed:
        return Rejected(str(failed))
    return Sent()


def _call(url: str, token: str, values: dict[str, Any]) -> dict[str, Any]:
    headers = {"Content-Type": FORM, "Authorization": f"Bearer {token}"}
    answer = _taken(request(url, urlencode(values).encode(), headers, [token]))
    try:
        said = json.loads(answer.text)
        ok, error = said.get("ok"), str(said.get("error", ""))
    except (ValueError, AttributeError):
        raise _Failed("Slack answered something that is not JSON") from None
    if ok is not True:
        raise _Failed(f"Slack: {error}")
    return dict(said)


def _taken(answer: Answer | Outcome) -> Answer:
    judged = outcome(answer, 0.0)
    if isinstance(judged, Retry | Rejected):
        raise _Failed(judged.error)
    assert isinstance(answer, Answer)
    return answer
