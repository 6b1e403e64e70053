"""The official client asks an API server: what it is asked for, and what is made of silence, refusals and nonsense."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.kube_api import JOBSETS, PODS, PYTORCHJOBS, TOKEN, TRAINJOBS, ApiServer, api_server, kubeconfig
from tests.support.kube_objects import START, pod, workload
from watcher.clock import FakeClock, SystemClock
from watcher.config.daemon import DaemonConfig
from watcher.config.fleet import build_feeds, fleet_notes
from watcher.fleet._api import FleetError, Job
from watcher.fleet._kubernetes_api import KubernetesApi
from watcher.fleet._kubernetes_pods import pod_of
from watcher.fleet.kubernetes import KubernetesMatch, KubernetesSettings, KubernetesSource, accepts

OF_JOBSET, OF_PYTORCHJOB = "jobset.sigs.k8s.io/jobset-name", "training.kubeflow.org/job-name"


def source(file: Path | None, *matches: dict[str, Any], **settings: Any) -> KubernetesSource:
    rules = [KubernetesMatch(**({"namespace": "train"} | match)) for match in matches]
    return KubernetesSource(KubernetesSettings(kubeconfig=file, **settings), rules, SystemClock(epoch=START + 60))


def with_server(folder: Path, play: Callable[[ApiServer], Awaitable[None]]) -> None:
    async def run() -> None:
        async with api_server(folder) as server:
            await play(server)

    asyncio.run(run())


async def ask(asked: KubernetesSource, *, again: bool = False) -> list[Job]:
    try:
        return list(await asked.jobs())
    finally:
        if not again:
            await asked.aclose()


def test_each_kind_finds_its_own_pods_in_its_own_namespace(tmp_path):
    async def play(server: ApiServer) -> None:
        server.put(JOBSETS, workload("js"), workload("other"))
        server.put(PYTORCHJOBS, workload("pt"))
        server.put(TRAINJOBS, workload("tj"))
        server.put(
            PODS, pod("a", "n1", labels={OF_JOBSET: "js"}), pod("b", "n2", labels={OF_PYTORCHJOB: "pt"}),
            pod("c", "n3", labels={OF_JOBSET: "tj"}), pod("d", "n4", labels={"app": "bare"}),
        )  # fmt: skip
        server.put(PODS, pod("e", "n5", labels={OF_JOBSET: "js"}), namespace="elsewhere")
        matches = [{"jobset": "j*"}, {"pytorchjob": "pt"}, {"trainjob": "t?"}, {"pods": "app=bare"}]
        jobs = await ask(source(server.kubeconfig, *matches))
        assert {(job.id, job.state, tuple(place.node for place in job.places)) for job in jobs} == {
            ("train/js", "running", ("n1",)), ("train/pt", "running", ("n2",)),
            ("train/tj", "running", ("n3",)), ("train/app=bare", "running", ("n4",)),
        }  # fmt: skip
        taken = [[job.name for job in jobs if accepts(KubernetesMatch(namespace="train", **m), job)] for m in matches]
        assert taken == [["js"], ["pt"], ["tj"], ["app=bare"]]
        assert all(request.headers["Authorization"] == f"Bearer {TOKEN}" for request in server.api)
        assert {request.method.value for request in server.api} == {"GET"}

    with_server(tmp_path, play)


def test_long_lists_are_read_page_by_page(tmp_path):
    async def play(server: ApiServer) -> None:
        server.page = 3
        server.put(PODS, *(pod(f"p{n}", f"n{n}", labels={"app": "a"}) for n in range(10)))
        (job,) = await ask(source(server.kubeconfig, {"pods": "app=a"}))
        assert len(job.places) == 10
        assert len(server.asked) == 4

    with_server(tmp_path, play)


def test_the_version_of_a_kind_is_the_servers(tmp_path):
    async def play(server: ApiServer) -> None:
        del server.api.resources[JOBSETS]
        newer = JOBSETS.replace("v1alpha2", "v1")
        server.serve(newer)
        server.put(newer, workload("js"))
        (job,) = await ask(source(server.kubeconfig, {"jobset": "js"}))
        assert job.state == "pending"
        assert "/apis/jobset.x-k8s.io/v1/namespaces/train/jobsets?limit=500" in server.asked

    with_server(tmp_path, play)


def test_a_group_whose_newest_version_has_not_the_kind_is_searched(tmp_path):
    async def play(server: ApiServer) -> None:
        server.serve("kubeflow.org/v2/mpijobs")
        server.put(PYTORCHJOBS, workload("pt"))
        asked = source(server.kubeconfig, {"pytorchjob": "pt"})
        await ask(asked, again=True)
        first = len(server.asked)
        assert [job.name for job in await ask(asked)] == ["pt"]
        assert len(server.asked) - first == 2  # that is asked once

    with_server(tmp_path, play)


def test_nothing_that_matches_is_no_jobs_and_no_error(tmp_path):
    async def play(server: ApiServer) -> None:
        assert await ask(source(server.kubeconfig, {"jobset": "js"}, {"pods": "app=a"})) == []

    with_server(tmp_path, play)


def test_an_object_that_ended_days_ago_is_no_news(tmp_path):
    async def play(server: ApiServer) -> None:
        server.put(JOBSETS, workload("js", ("Completed", START - 90_000, "")))
        assert await ask(source(server.kubeconfig, {"jobset": "js"})) == []

    with_server(tmp_path, play)


def test_the_count_of_restarts_goes_on_from_poll_to_poll(tmp_path):
    async def play(server: ApiServer) -> None:
        asked = source(server.kubeconfig, {"jobset": "js"})
        server.put(JOBSETS, workload("js"))
        server.put(PODS, pod("a", "n1", labels={OF_JOBSET: "js"}))
        await ask(asked, again=True)
        server.remove(PODS, "a")
        server.put(PODS, pod("b", "n2", labels={OF_JOBSET: "js"}, created=START + 900))
        (job,) = await ask(asked)
        assert (job.restarts, job.started_at) == (1, START + 905)

    with_server(tmp_path, play)


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (403, "answers 403 to /api/v1/namespaces/train/pods: give its account the Role of .* \\(no\\)"),
        (401, "answers 401 .*its token is not valid"),
        (429, "answers 429"),
        (500, "answers 500"),
    ],
)
def test_a_refusal_is_an_error_that_says_what_to_do_and_never_no_jobs(tmp_path, status, told):
    async def play(server: ApiServer) -> None:
        server.answers(status)
        with pytest.raises(FleetError, match=told):
            await ask(source(server.kubeconfig, {"pods": "app=a"}))

    with_server(tmp_path, play)


def test_a_kind_that_the_cluster_does_not_know_is_named(tmp_path):
    async def play(server: ApiServer) -> None:
        del server.api.resources[PYTORCHJOBS]
        with pytest.raises(FleetError, match=r"knows no pytorchjobs\.kubeflow\.org: is its controller installed"):
            await ask(source(server.kubeconfig, {"pytorchjob": "x"}))

    with_server(tmp_path, play)


def test_a_token_that_ran_out_is_read_again_at_once(tmp_path):
    async def play(server: ApiServer) -> None:
        asked = source(server.kubeconfig, {"pods": "app=a"})
        await ask(asked, again=True)
        server.kubeconfig.write_text(server.kubeconfig.read_text().replace(TOKEN, "the-new-one"))
        server.only("the-new-one")
        assert await ask(asked) == []
        assert [request.headers["Authorization"][7:] for request in server.api] == [TOKEN, TOKEN, "the-new-one"]

    with_server(tmp_path, play)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"<html>Sign in</html>", "no JSON"), (b"[]", "holds no items"), (b'{"items": null}', "holds no items"),
        (b'{"items": ' + b"[" * 100_000, "no JSON"),
    ],
)  # fmt: skip
def test_an_answer_that_is_no_list_is_an_error(tmp_path, body, told):
    async def play(server: ApiServer) -> None:
        server.says(body)
        with pytest.raises(FleetError, match=told):
            await ask(source(server.kubeconfig, {"pods": "app=a"}))

    with_server(tmp_path, play)


def test_what_is_read_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("watcher.fleet._kubernetes_api.MAX_BYTES", 10_000)
    monkeypatch.setattr("watcher.fleet._kubernetes_api.MAX_OBJECTS", 5)

    async def play(server: ApiServer) -> None:
        server.put(PODS, *(pod(f"p{n}", labels={"app": "a"}) for n in range(6)))
        server.page = 2
        with pytest.raises(FleetError, match="more than 5 pods in namespace train"):
            await ask(source(server.kubeconfig, {"pods": "app=a"}))
        server.says(b" " * 20_000)
        with pytest.raises(FleetError, match="list is larger than"):
            await ask(source(server.kubeconfig, {"pods": "app=a"}))

    with_server(tmp_path, play)


def test_a_server_that_goes_on_paging_for_ever_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("watcher.fleet._kubernetes_api.MAX_PAGES", 7)

    async def play(server: ApiServer) -> None:
        server.says(b'{"items": [], "metadata": {"continue": "more"}}')
        with pytest.raises(FleetError, match="does not come to an end"):
            await ask(source(server.kubeconfig, {"pods": "app=a"}))

    with_server(tmp_path, play)


def test_a_server_that_does_not_answer_is_unknown_after_the_deadline(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        file = tmp_path / "kubeconfig"
        file.write_text(kubeconfig(f"http://127.0.0.1:{deaf.getsockname()[1]}", TOKEN))
        match = KubernetesMatch(namespace="train", pods="app=a")
        asked = KubernetesSource(KubernetesSettings(kubeconfig=file), [match], SystemClock(scale=100.0))
        with pytest.raises(FleetError, match="has not answered within 30 s"):
            asyncio.run(ask(asked))


def test_a_server_that_is_not_there_is_unknown(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig(f"http://127.0.0.1:{port}", TOKEN))
    with pytest.raises(FleetError, match="cannot be asked: Cannot connect") as error:
        asyncio.run(ask(source(file, {"pods": "app=a"})))
    assert TOKEN not in str(error.value)


@pytest.mark.parametrize("text", ["", "a: [", "current-context: x\n", "- a\n"])
def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path, text):
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    with pytest.raises(FleetError, match=f"{file} cannot be used: "):
        asyncio.run(ask(source(file, {"pods": "app=a"})))


def test_without_a_kubeconfig_outside_a_pod_the_setting_is_named(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(FleetError, match=r"account of this pod \(set fleet\.kubernetes\.kubeconfig\) cannot be used"):
        asyncio.run(ask(source(None, {"pods": "app=a"})))


def test_without_the_client_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "kubernetes.aio", None)
    with pytest.raises(FleetError, match=r"pip install 'runwatch\[kubernetes\]'"):
        asyncio.run(KubernetesApi(tmp_path, None).objects("", "train", "pods", pod_of))


def test_a_config_is_not_silent_about_a_client_that_is_not_installed(monkeypatch):
    run = {"name": "a", "match": {"kubernetes": {"namespace": "train", "jobset": "a"}}}
    config = DaemonConfig.model_validate({"runs": [run]})
    assert fleet_notes(config) == []
    monkeypatch.setattr("watcher.config.fleet.find_spec", lambda name: None)
    assert "pip install 'runwatch[kubernetes]'" in fleet_notes(config)[0]


@pytest.mark.parametrize(
    ("match", "told"),
    [
        ({"namespace": "train"}, "give one of jobset, pytorchjob, trainjob and pods"),
        ({"namespace": "train", "jobset": "a", "pods": "b"}, "give one of"),
        ({"jobset": "a"}, "namespace"),
        ({"namespace": "../kube-system", "jobset": "a"}, "namespace"),
    ],
)
def test_mistakes_in_a_rule_are_told(match, told):
    with pytest.raises(ValidationError, match=told):
        KubernetesMatch(**match)


def test_a_run_of_the_config_is_found_here_no_more_often_than_every_15_seconds():
    run = {"name": "{namespace}-{name}", "match": {"kubernetes": {"namespace": "train", "jobset": "tr*"}}}
    (feed,) = build_feeds(DaemonConfig.model_validate({"runs": [run]}), FakeClock())
    assert feed.poll_seconds == 15
    labels = {"kind": "jobset", "namespace": "train", "name": "tr11"}
    job = Job(id="train/tr11", state="running", name="tr11", labels=labels)
    assert feed.rules[0].wants(job)
    assert feed.rules[0].run_of(job) == "train-tr11"
    with pytest.raises(ValidationError, match="poll_seconds"):
        KubernetesSettings(poll_seconds=5)
    with pytest.raises(ValidationError, match="give that too"):
        KubernetesSettings(context="training")
