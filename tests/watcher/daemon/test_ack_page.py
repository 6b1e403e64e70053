from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from starlette.applications import Starlette

from alerts.ack_link import ack_url
from alerts.desk import AlertDesk
from alerts.secret import Secret
from tests.alerts.delivery_samples import CHAT, House, Scripted
from tests.alerts.incident_samples import clear, finding, fires, gpu_finding
from watcher.clock import FakeClock
from watcher.daemon.ack_page import ack_routes
from watcher.daemon.http import BearerToken

LINK_KEY = b"k" * 32


@dataclass
class Reply:
    status_code: int
    headers: dict[str, str]
    text: str


class Client:
    """Calls the application as a server would, without one."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def get(self, path: str) -> Reply:
        return asyncio.run(self._ask("GET", path))

    def post(self, path: str) -> Reply:
        return asyncio.run(self._ask("POST", path))

    async def _ask(self, method: str, path: str) -> Reply:
        said: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            said.append(message)

        scope = {
            "type": "http", "method": method, "path": unquote(path), "raw_path": path.encode(), "headers": [],
            "query_string": b"", "root_path": "", "scheme": "https", "server": ("rw.example", 443), "client": None,
            "http_version": "1.1",
        }  # fmt: skip
        await self._app(scope, receive, send)
        headers = {name.decode(): value.decode() for name, value in said[0]["headers"]}
        return Reply(said[0]["status"], headers, b"".join(one.get("body", b"") for one in said[1:]).decode())


class Stage:
    """A desk whose pages carry links, and its HTTP behind a bearer token."""

    def __init__(self, folder: Path) -> None:
        clock = FakeClock()
        self.chat = Scripted(clock)
        self.house = House(folder, clock, {"team": (self.chat, CHAT)}, reminder_seconds=60)
        house = self.house
        house.desk = AlertDesk(
            house.store, house.outbox, house.policy, clock, public_url="https://rw.example", link_key=LINK_KEY
        )
        house.tick(fires(finding(summary="no <b>progress</b>")))
        app = Starlette(routes=ack_routes(house.desk))
        app.add_middleware(BearerToken, token=Secret("t"))
        self.client = Client(app)

    @property
    def link(self) -> str:
        _, page = self.chat.seen[0]
        return next(urlsplit(link.url).path for link in page.links if link.name == "acknowledge")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_opening_the_link_changes_nothing_and_the_button_acknowledges(stage: Stage) -> None:
    shown = stage.client.get(stage.link)
    assert shown.status_code == 200
    assert "<button" in shown.text
    assert "<b>progress" not in shown.text
    assert "default-src 'none'" in shown.headers["content-security-policy"]
    assert stage.house.desk.incidents["tr7/stall"].acknowledged_at is None
    assert "Acknowledged" in stage.client.post(stage.link).text
    assert stage.house.desk.incidents["tr7/stall"].acknowledged_by == "a signed link"
    assert "Acknowledged already" in stage.client.get(stage.link).text
    stage.house.run(300, [fires(finding())])
    assert stage.chat.kinds == ["opened"]


def test_the_link_stands_in_the_page_that_a_person_reads(stage: Stage) -> None:
    assert f"acknowledge: https://rw.example{stage.link}" in stage.chat.seen[0][1].text


@pytest.mark.parametrize(
    "path",
    [
        "/ack/0000/tr7%2Fstall",
        urlsplit(ack_url("https://rw.example", b"x" * 32, "tr7/stall", "id")).path,
        "/ack/%C3%A9/tr7%2Fstall",
        "/ack/0000/nothing",
    ],
)
def test_a_link_that_was_not_signed_here_is_worth_nothing(stage: Stage, path: str) -> None:
    assert stage.client.post(path).status_code == 404
    assert stage.house.desk.incidents["tr7/stall"].acknowledged_at is None


def test_a_link_dies_with_its_incident(stage: Stage) -> None:
    link = stage.link
    stage.house.run(1300, [clear()])
    stage.house.tick(fires(finding()))
    assert stage.house.desk.incidents["tr7/stall"].state == "open"
    assert stage.client.post(link).status_code == 404


def test_the_link_of_a_page_with_a_list_takes_all_of_it_also_when_the_first_of_it_is_over(stage: Stage) -> None:
    dark = [gpu_finding(f"n{number}", gpu=None) for number in (1, 2, 3)]
    stage.house.run(60, [fires(finding()), fires(*dark)])
    page = next(one for _, one in stage.chat.seen if one.members)
    link = next(urlsplit(link.url).path for link in page.links if link.name == "acknowledge")
    assert "and 2 more of the same page" in stage.client.get(link).text
    stage.house.run(60, [fires(finding()), fires(*dark[1:])])
    assert stage.house.desk.incidents["n1/gpu_lost"].state == "resolved"
    assert "Acknowledged" in stage.client.post(link).text
    assert stage.house.desk.incidents["n1/gpu_lost"].acknowledged_at is None
    assert {stage.house.desk.incidents[f"n{number}/gpu_lost"].acknowledged_by for number in (2, 3)} == {"a signed link"}
    assert stage.house.desk.incidents["tr7/stall"].acknowledged_at is None


def test_everything_else_still_needs_the_token(stage: Stage) -> None:
    assert stage.client.get("/metrics").status_code == 401
