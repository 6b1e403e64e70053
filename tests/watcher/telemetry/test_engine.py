"""A real Prometheus that has scraped a fleet: one query a metric, true times of samples, silence told as silence."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from tests.support.prometheus import configuration, prometheus
from tests.support.runs import IDLE, WORK
from tests.support.tape import Tape
from watcher.clock import FakeClock
from watcher.config.telemetry import Telemetry, build_telemetry
from watcher.daemon.answer import Answer
from watcher.telemetry._prometheus_api import _clock

NODES = ("n1", "n2.example.org", "gone", "never")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("engine")
    tape, start = Tape(), time.time() - 600
    tape.fleet(start, 595, ("n1",), 2, lambda node, index, t: WORK if index else IDLE)
    tape.fleet(start, 595, ("n2",), 1, lambda node, index, t: WORK if t < 590 else None)
    tape.fleet(start, 595, ("gone",), 1, lambda node, index, t: WORK if t < 400 else None)
    tape.fleet(start, 595, ("stranger",), 1, lambda node, index, t: WORK)
    blocks = tape.write(folder)
    with prometheus(folder, configuration({}), data=blocks) as server:
        yield server.url


def ask(url: str, nodes: Sequence[str] = NODES, looks: int = 1, **section: Any) -> list[Answer]:
    (item,) = TypeAdapter(Telemetry).validate_python([{"prometheus": {"url": url, **section}}])

    async def look() -> list[Answer]:
        (source,) = build_telemetry([item], lambda: nodes, FakeClock(5_000.0))
        async with source:
            return [answer for _ in range(looks) for answer in await source.ask_all()]

    return asyncio.run(look())


def test_the_whole_fleet_is_read_at_once_and_ages_are_those_of_the_samples(url):
    told = {answer.node: answer for answer in ask(url)}
    first = told["n1"].snapshot
    assert first is not None, told["n1"].error
    assert [(gpu.index, gpu.utilization_ratio) for gpu in first.gpus] == [(0, 0.0), (1, 0.98)]
    assert first.gpus[0].power_watts == pytest.approx(120, abs=2)
    assert first.gpus[0].power_limit_watts is None
    assert first.gpus_age_seconds is not None
    assert 0 < first.gpus_age_seconds < 60  # by the engine's clock; ours says 1970
    assert first.interval_seconds == pytest.approx(15.0)
    assert first.health["nvml"].ok


def test_a_node_is_known_by_its_short_name(url):
    told = {answer.node: answer for answer in ask(url)}
    snapshot = told["n2.example.org"].snapshot
    assert snapshot is not None
    assert len(snapshot.gpus) == 1


def test_what_ended_minutes_ago_is_not_shown_as_if_it_lived(url):
    told = {answer.node: answer for answer in ask(url)}
    assert told["gone"].snapshot is None
    assert "has no sample of gone from the last 150 s" in (told["gone"].error or "")
    assert told["never"].snapshot is None
    assert "stranger" not in told


def test_labels_that_were_renamed_and_more_matchers(url):
    by_instance = ask(url, ("n1",), node_label="instance", selector='modelName=~".*H100.*"', power_limit_watts=700)
    assert by_instance[0].snapshot is not None
    assert by_instance[0].snapshot.gpus[0].power_limit_watts == 700
    nothing = ask(url, ("n1",), selector='cluster="other"')
    assert nothing[0].snapshot is None


def test_a_faulty_selector_is_told_in_the_engines_words(url):
    (answer,) = ask(url, ("n1",), selector='a="b" nonsense')
    assert "parse error" in (answer.error or "")


class Api:
    """An engine that answers what it is told, and keeps what it was asked."""

    def __init__(self, answer: Any, status: int = 200) -> None:
        self.answer, self.status = answer, status
        self.seen: list[web.Request] = []

    async def handle(self, request: web.Request) -> web.Response:
        self.seen.append(request)
        if request.query.get("query") == "time()" and self.status == 200:
            return web.json_response({"status": "success", "data": {"resultType": "scalar", "result": [1.0, "1.0"]}})
        if isinstance(self.answer, str):
            return web.Response(text=self.answer, status=self.status)
        return web.json_response(self.answer, status=self.status)


def ask_fake(api: Api, looks: int = 1, **section: Any) -> list[Answer]:
    (item,) = TypeAdapter(Telemetry).validate_python([{"prometheus": {"url": "http://x", **section}}])

    async def look() -> list[Answer]:
        app = web.Application()
        app.router.add_route("*", "/tenant/prom/api/v1/query", api.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server: Any = site._server
        port = server.sockets[0].getsockname()[1]
        where = item.prometheus.model_copy(update={"url": f"http://127.0.0.1:{port}/tenant/prom"})
        (source,) = build_telemetry([item.model_copy(update={"prometheus": where})], lambda: ["n1"], FakeClock(9.0))
        try:
            async with source:
                return [answer for _ in range(looks) for answer in await source.ask_all()]
        finally:
            await runner.cleanup()

    return asyncio.run(look())


EMPTY = {"status": "success", "data": {"resultType": "matrix", "result": []}}


def test_tenant_token_and_more_headers_are_sent():
    api = Api(EMPTY)
    ask_fake(api, org_id="team-a", token="t0p", extra_headers={"X-Extra": "1"})
    sent = api.seen[-1].headers
    assert (sent["X-Scope-OrgID"], sent["Authorization"], sent["X-Extra"]) == ("team-a", "Bearer t0p", "1")


def test_metrics_that_nobody_has_are_not_asked_for_each_time():
    one = {"metric": {"Hostname": "n1", "UUID": "GPU-1", "gpu": "0"}, "values": [[0.5, "97"]]}

    class OnlyUtilization(Api):
        async def handle(self, request: web.Request) -> web.Response:
            has = request.query.get("query", "").startswith("DCGM_FI_DEV_GPU_UTIL")
            self.answer = {"status": "success", "data": {"resultType": "matrix", "result": [one] if has else []}}
            return await super().handle(request)

    api = OnlyUtilization(EMPTY)
    answers = ask_fake(api, looks=3)
    assert all(answer.snapshot is not None for answer in answers)
    queries = [request.query["query"] for request in api.seen]
    assert sum(query.startswith("DCGM_FI_DEV_POWER_USAGE{") for query in queries) == 1
    assert sum(query.startswith("DCGM_FI_DEV_GPU_UTIL{") for query in queries) == 3


@pytest.mark.parametrize(
    ("answer", "status", "told"),
    [
        ("no", 401, "refuses us (HTTP 401)"),
        ("<html>", 200, "no answer of a Prometheus API"),
        ("nowhere", 404, "no answer of a Prometheus API"),
        ({"status": "error", "error": "query timed out"}, 503, "query timed out"),
        ({"status": "success", "data": 7}, 200, "HTTP 200"),
        ("[" * 100_000, 200, "no answer of a Prometheus API"),
        ({"status": "success", "data": {"result": [7, {"metric": 1}, {"metric": {}, "values": [[1], "x"]}]}}, 200,
         "has no sample of n1"),
        ({"status": "success", "data": {"result": [{"metric": {"Hostname": "n1"}, "values": [[10**400, 1]]}]}}, 200,
         "has no sample of n1"),
        ({**EMPTY, "warnings": ["No StoreAPIs matched"]}, 200, "tells nothing of n1 and warns: No StoreAPIs matched"),
    ],
)  # fmt: skip
def test_an_engine_that_does_not_answer_as_one_makes_every_node_silent(answer, status, told):
    (silent,) = ask_fake(Api(answer, status))
    assert silent.snapshot is None
    assert told in (silent.error or "")
    assert silent.part == "gpus"


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"url": "ftp://x"}, "http://"),
        ({"url": "http://u:p@x/"}, "carries a password"),
        ({"url": "http://x/?a=b"}, "must end with the path"),
        ({"url": "http://x", "metrics": "dcgm"}, "no exporter is called 'dcgm'; known are dcgm_exporter"),
        ({"url": "http://x", "selector": "a}b"}, "pattern"),
        ({"url": "http://x", "node_label": "a-b"}, "pattern"),
        ({"url": "http://x", "username": "u"}, "belong together"),
    ],
)
def test_what_is_wrong_in_the_section_is_told_before_the_start(section, told):
    with pytest.raises(ValidationError, match=told.replace("(", r"\(")):
        TypeAdapter(Telemetry).validate_python([{"prometheus": section}])


def test_a_secret_in_a_header_is_not_printed():
    (item,) = TypeAdapter(Telemetry).validate_python(
        [{"prometheus": {"url": "http://x", "extra_headers": {"Cookie": "s3cret"}, "token": "t0p"}}]
    )
    assert "s3cret" not in repr(item)
    assert "t0p" not in item.model_dump_json()


def test_an_authority_that_cannot_be_read_is_told_and_nothing_is_asked_without_it():
    (silent,) = ask("https://127.0.0.1:1", ("n1",), ca_file="/nowhere/ca.pem")
    assert silent.error == "ca_file /nowhere/ca.pem: No such file or directory"


@pytest.mark.parametrize("told", ["NaN", "9" * 400, None, {}])
def test_an_engine_that_tells_no_time_is_told_as_such(told):
    assert _clock({"result": [0, told]}) is None
