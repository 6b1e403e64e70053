"""The page behind an acknowledge link: shows the incident and a button. Needs no token but the one in its address."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from alerts.ack_link import is_valid
from alerts.desk import UnknownIncident

if TYPE_CHECKING:
    from alerts.desk import AlertDesk
    from alerts.incidents import Incident

PREFIX = "/ack/"
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"
    ),
}


def ack_routes(desk: AlertDesk) -> list[Route]:
    def acknowledge(request: Request) -> Response:
        """In a thread of its own: the desk may be waiting for its database, and the loop has agents to ask."""
        incident = _wanted(desk, request.path_params["token"], request.path_params["key"])
        if incident is None:
            return _page("This link is not valid any more", "Its incident is over, or it was altered.", 404)
        count = len(desk.company(incident.key))
        others = f"\nand {count} more of the same page" if count else ""
        if request.method == "POST":
            try:
                incident = desk.acknowledge(incident.key, "a signed link")
            except UnknownIncident:
                return _page("It is over already", incident.summary, 404)
            return _page("Acknowledged", f"{incident.summary}{others}\nNo reminders and no escalation from now on.")
        if incident.acknowledged_at is not None and not count:
            return _page("Acknowledged already", f"{incident.summary}\nby {incident.acknowledged_by}")
        return _page("Acknowledge this incident?", f"{incident.summary}{others}", button="I have it")

    return [Route(PREFIX + "{token}/{key:path}", acknowledge, methods=["GET", "POST"])]


def _wanted(desk: AlertDesk, given: str, key: str) -> Incident | None:
    """The incident that the link was made for, where it or another one of its page is open; a link to an earlier
    opening is worth nothing."""
    incident = desk.incidents.get(key)
    if incident is None or desk.link_key is None or not (incident.state == "open" or desk.company(key)):
        return None
    return incident if is_valid(given, desk.link_key, key, incident.id) else None


def _page(title: str, text: str, status: int = 200, button: str = "") -> Response:
    form = f"<form method=post><button style='font-size:1.5em'>{html.escape(button)}</button></form>" if button else ""
    words = html.escape(text).replace("\n", "<br>")
    return HTMLResponse(
        "<!doctype html><meta name=viewport content='width=device-width'><title>runwatch</title>"
        f"<body style='font-family:sans-serif;margin:2em'><h1>{html.escape(title)}</h1><p>{words}</p>{form}",
        status,
        HEADERS,
    )
