"""The daemon's HTTP over a real daemon object: who may ask, what it shows, what a person may change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from alerts.desk import AlertDesk
from alerts.facts import facts_from_frame
from alerts.outbox import Outbox
from alerts.policy import AlertPolicy
from alerts.secret import Secret
from detectors.registry import load_plugins
from tests.support.runs import SPIN, START, WORK, ScriptedRun
from watcher.clock import FakeClock
from watcher.daemon.app import Daemon
from watcher.daemon.collect import Collector
from watcher.daemon.evaluate import build_detectors
from watcher.daemon.http import build_app
from watcher.daemon.pipeline import WatchedRun
from watcher.daemon.silences import Silences
from watcher.daemon.store import Store, StoreError

KEY = "train/stall"


class Client:
    """Calls the ASGI app in-process."""

    daemon: Daemon

    def __init__(self, app: Starlette, token: str | None = "T") -> None:
        self.app, self.token = app, token

    def ask(
        self, path: str, method: str = "GET", body: Any = None, token: str | None = "T", accept: str = "*/*"
    ) -> tuple[int, str]:
        import asyncio

        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        headers.append((b"accept", accept.encode()))
        raw, _, query = path.partition("?")
        scope = {
            "type": "http", "method": method, "path": raw, "raw_path": raw.encode(), "query_string": query.encode(),
            "headers": headers, "http_version": "1.1", "scheme": "http", "server": ("h", 80), "client": ("c", 1),
        }  # fmt: skip
        sent: list[dict[str, Any]] = []
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": data, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        asyncio.run(self.app(scope, receive, send))
        text = b"".join(m.get("body", b"") for m in sent if m["type"] == "http.response.body")
        return sent[0]["status"], text.decode()

    def json(self, path: str, **more: Any) -> Any:
        status, text = self.ask(path, **more)
        assert status == 200, text
        return json.loads(text)


@pytest.fixture
def client(tmp_path: Path):
    """A run that hangs: its incident is open."""
    clock = FakeClock(START)
    run = ScriptedRun(nodes=("n1",))
    store = Store(tmp_path / "x.db")
    desk = AlertDesk(store, Outbox([], clock, store), AlertPolicy(channels={}), clock)
    watched = WatchedRun(run.fold, build_detectors(load_plugins()))
    daemon = Daemon(
        [watched], [Collector({}, clock)], desk, (), clock, 10.0, save=lambda runs: None, ledger=watched.fold.ledger
    )
    run.steps(60, 900, 10, 1)
    run.level = lambda node, index, t: WORK if t <= 900 else SPIN
    while run.t < 1300:
        run.t += 10
        clock.now = START + run.t
        run.poll()
        frame = run.fold.frame(clock.now)
        daemon.frames["train"] = frame
        desk.evaluate(daemon.evaluator.judge(frame, watched.detectors), {"train": facts_from_frame(frame)}, clock.now)
    daemon.health.last_tick_at = daemon.health.last_ok_at = clock.now
    daemon.config_hash = "abc123"
    daemon.silences = Silences(desk, store, clock)
    made = Client(build_app(daemon, Secret("T"), store.history, store))
    made.daemon = daemon
    yield made
    store.close()


@pytest.mark.parametrize("path", ["/metrics", "/api/runs", "/api/incidents", f"/api/incidents/{KEY}", "/x"])
def test_everything_but_healthz_needs_the_token(client, path):
    assert client.ask(path, token=None)[0] == 401
    assert client.ask(path, token="wrong")[0] == 401


def test_healthz_says_only_ok(client):
    assert client.ask("/healthz", token=None) == (200, "ok\n")


def test_a_run_shows_where_it_stands_and_what_is_watched(client):
    (run,) = client.json("/api/runs")["runs"]
    assert run["state"] == "critical"
    assert run["watched"]["nodes_answering"] == 1
    assert run["watched"]["gpus_power_known"] == 8
    assert run["learnt"]["gaps_seconds"]["training"]["longest"] == 10
    assert run["incidents"] == [KEY]


def test_an_incident_can_be_acknowledged_snoozed_and_ended(client):
    assert client.json(f"/api/incidents/{KEY}/do/ack", method="POST", body={"by": "ada"})["acknowledged_by"] == "ada"
    snoozed = client.json(f"/api/incidents/{KEY}/do/snooze", method="POST", body={"seconds": 600})
    assert snoozed["snoozed_until_at"] == START + 1300 + 600
    ended = client.json(f"/api/incidents/{KEY}/do/resolve", method="POST", body={"false_alarm": True})
    assert ended["state"] == "resolved"
    assert "set daemon.recording" in ended["kept"]
    assert client.ask(f"/api/incidents/{KEY}/do/ack", method="POST")[0] == 404


@pytest.mark.parametrize(
    ("path", "method", "body", "status"),
    [
        (f"/api/incidents/{KEY}/do/explode", "POST", None, 404),
        ("/api/incidents/none/do/ack", "POST", None, 404),
        (f"/api/incidents/{KEY}/do/ack", "POST", b"{", 400),
        (f"/api/incidents/{KEY}/do/ack", "POST", [1], 400),
        (f"/api/incidents/{KEY}/do/ack", "POST", b'{"by":' + b"[" * 60_000, 400),
        (f"/api/incidents/{KEY}/do/snooze", "POST", {"seconds": 10**400}, 400),
        (f"/api/incidents/{KEY}/do/ack", "POST", b" " * 70_000, 413),
        (f"/api/incidents/{KEY}/do/snooze", "POST", {"seconds": 1}, 400),
        (f"/api/incidents/{KEY}/do/snooze", "POST", {"seconds": "soon"}, 400),
        (f"/api/incidents/{KEY}/do/snooze", "POST", {"seconds": [1]}, 400),
        (f"/api/incidents/{KEY}/do/ack", "GET", None, 404),
        ("/docs/../secret", "GET", None, 404),
        ("/docs/nothing", "GET", None, 404),
    ],
)
def test_what_makes_no_sense_is_answered_in_words(client, path, method, body, status):
    got, text = client.ask(path, method=method, body=body)
    assert (got, "Traceback" in text) == (status, False) or got in (404, 405)


def test_metrics_count_the_open_incident_and_start_at_zero(client):
    text = client.ask("/metrics")[1]
    assert 'runwatch_incidents_open{severity="critical"} 1.0' in text
    assert 'runwatch_detector_failures_total{detector="crash"} 0.0' in text
    assert "T\n" not in text


def test_without_the_database_what_is_live_is_told_and_the_rest_is_a_503_in_words(client):
    def broken() -> list[Any]:
        raise StoreError("database /x.db: disk I/O error; see the file and its disk")

    client = Client(build_app(client.daemon, Secret("T"), broken))
    assert client.json(f"/api/incidents/{KEY}")["state"] == "open"
    assert client.json("/api/incidents")["incidents"][0]["key"] == KEY
    for path in ("/api/incidents?state=all", "/api/incidents/none"):
        status, text = client.ask(path)
        assert (status, json.loads(text)["error"][:15]) == (503, "database /x.db:")


def test_metrics_say_which_config_is_in_use(client):
    assert 'runwatch_config_info{hash="abc123"} 1.0' in client.ask("/metrics")[1]


def test_an_incident_can_be_had_as_markdown(client):
    status, text = client.ask(f"/api/incidents/{KEY}", accept="text/markdown")
    assert status == 200
    assert text.startswith("# Spin signature")
    assert "## Timeline" in text


def test_a_silence_is_made_shown_and_ended(client):
    status, text = client.ask("/api/silences", "POST", {"name": "move", "runs": ["train"], "seconds": 600, "by": "ada"})
    assert (status, json.loads(text)["by"]) == (200, "ada")
    assert [one["name"] for one in client.json("/api/silences")["silences"]] == ["move"]
    assert client.ask("/api/silences/move", "DELETE")[0] == 200
    assert client.ask("/api/silences/move", "DELETE")[0] == 404
    status, text = client.ask("/api/silences", "POST", {"seconds": 600})
    assert (status, "name runs, nodes or signatures" in text) == (400, True)
