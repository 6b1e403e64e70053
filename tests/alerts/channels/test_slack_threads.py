"""A Slack bot: one thread per incident over restarts, and its picture, which never holds up or repeats the page."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from alerts.channels import slack as module
from alerts.channels.slack import Slack, SlackSection
from alerts.notification import Notification, Sent
from alerts.secret import Secret
from detectors.verdict import Severity
from tests.alerts.channels.channel_cases import SECRET, sample
from tests.alerts.delivery_samples import CHAT, House
from tests.alerts.http_script import Answer, ScriptedServer
from tests.alerts.incident_samples import clear, finding, fires
from watcher.clock import FakeClock

IMAGE = b"\x89PNG picture"
NO = Answer(200, '{"ok": false, "error": "missing_scope"}')


class Workspace:
    """Answers as Slack does; `broken` names what fails, and how."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server, self.posts, self.broken = server, 0, dict[str, Answer]()
        server.judge_with(self._answer)

    def bot(self) -> Slack:
        url = self.server.url("/api/chat.postMessage")
        return Slack(SlackSection(bot_token=Secret(SECRET), channel="#gpu", api_url=url))

    def asked(self, method: str) -> list[bytes]:
        return [body for path, _, body in self.server.requests if path.endswith(method)]

    def messages(self) -> list[dict[str, object]]:
        return [json.loads(body) for body in self.asked("chat.postMessage")]

    def _answer(self, body: bytes) -> Answer:
        method = self.server.requests[-1][0].rpartition("/")[2]
        if method in self.broken:
            return self.broken[method]
        said: dict[str, object] = {"ok": True}
        if method == "chat.postMessage":
            self.posts += 1
            said |= {"ts": f"17.{self.posts}", "channel": "C0GPU"}
        if method == "files.getUploadURLExternal":
            said |= {"upload_url": self.server.url("/upload/v1"), "file_id": "F1"}
        return Answer(200, json.dumps(said))


@pytest.fixture
def workspace(server: ScriptedServer) -> Workspace:
    return Workspace(server)


def _page() -> Notification:
    return replace(sample(), picture_base64=base64.b64encode(IMAGE).decode())


def test_everything_about_an_incident_goes_into_one_thread_over_restarts(tmp_path: Path, workspace: Workspace) -> None:
    clock = FakeClock()
    house = House(tmp_path, clock, {"team": (workspace.bot(), CHAT)}, reminder_seconds=600.0)
    house.tick(fires(finding(severity=Severity.WARNING)))
    for _ in range(2):
        house.kill()
        house.channels = {"team": (workspace.bot(), CHAT)}
        house.start()
        house.run(610, [fires(finding())])
    house.run(60, [clear()])
    first, *rest = workspace.messages()
    assert "thread_ts" not in first
    assert len(rest) == 4  # raised, two reminders, the end
    assert {one["thread_ts"] for one in rest} == {"17.1"}
    assert [one["reply_broadcast"] for one in rest] == [True, False, False, True]


def test_the_next_incident_of_the_same_key_is_a_new_thread(tmp_path: Path, workspace: Workspace) -> None:
    house = House(tmp_path, FakeClock(), {"team": (workspace.bot(), CHAT)})
    house.run(30, [fires(finding())])
    house.run(1000, [clear()])
    house.run(30, [fires(finding())])
    assert "thread_ts" not in workspace.messages()[-1]


def test_the_picture_is_shown_in_the_thread(workspace: Workspace) -> None:
    assert workspace.bot().send(_page()) == Sent("17.1")
    asked = parse_qs(workspace.asked("files.getUploadURLExternal")[0].decode())
    assert asked["length"] == [str(len(IMAGE))]
    assert workspace.asked("upload/v1") == [IMAGE]
    shown = parse_qs(workspace.asked("files.completeUploadExternal")[0].decode())
    assert (shown["channel_id"], shown["thread_ts"]) == (["C0GPU"], ["17.1"])
    assert json.loads(shown["files"][0])[0]["id"] == "F1"
    uploaded = [headers for path, headers, _ in workspace.server.requests if path == "/upload/v1"]
    assert "authorization" not in uploaded[0]


@pytest.mark.parametrize("method", ["files.getUploadURLExternal", "v1", "files.completeUploadExternal"])
@pytest.mark.parametrize("answer", [NO, Answer(500), Answer.reset(), Answer.drip()], ids=str)
def test_a_picture_that_does_not_arrive_neither_fails_nor_repeats_the_page(
    workspace: Workspace, method: str, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PICTURE_SECONDS", 0.3)
    workspace.broken[method] = answer
    sent = workspace.bot().send(_page())
    assert isinstance(sent, Sent)
    assert sent.receipt == "17.1"
    assert sent.trouble.startswith("no picture: ") or (method == "v1" and answer is NO)  # any 200 is a yes there
    assert SECRET not in sent.trouble


def test_what_did_not_work_is_said_in_the_log_and_kept_with_the_message(tmp_path: Path, workspace: Workspace) -> None:
    workspace.broken["files.getUploadURLExternal"] = NO

    class WithPicture:
        bot = workspace.bot()

        def send(self, notification: Notification, minimal: bool = False) -> object:
            return self.bot.send(replace(notification, picture_base64=_page().picture_base64), minimal)

    house = House(tmp_path, FakeClock(), {"team": (WithPicture(), CHAT)})  # type: ignore[dict-item]
    house.tick(fires(finding()))
    assert house.warnings == ["channel team: no picture: Slack: missing_scope"]
    (row,) = house.store.deliveries()
    assert (row.state, row.error) == ("sent", "no picture: Slack: missing_scope")
    assert len(workspace.messages()) == 1
