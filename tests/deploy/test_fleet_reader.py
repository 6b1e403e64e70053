"""The account by which the daemon asks a training cluster: what it may, and the way to it that the document shows."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from pathlib import Path

import yaml

from tests.support.kube_api import PODS, TOKEN, api_server
from tests.support.kube_objects import pod
from tests.support.manifests import KUBERNETES, kustomize, objects, one
from tests.support.tools import tool
from watcher.clock import FakeClock, SystemClock
from watcher.config.daemon import DaemonConfig
from watcher.config.fleet import build_feeds
from watcher.config.load import load
from watcher.fleet._kubernetes_workloads import KINDS
from watcher.fleet.kubernetes import KubernetesMatch, KubernetesSettings, KubernetesSource

FOLDER = KUBERNETES / "fleet-reader"
DOCUMENT = (KUBERNETES / "README.md").read_text(encoding="utf-8")
SECTION = DOCUMENT.partition("## Runs that the cluster tells")[2].partition("\n## ")[0]


def test_it_may_list_what_the_source_asks_for_and_nothing_else():
    rules = one(objects(kustomize(FOLDER)), "Role")["rules"]
    allowed = {(group, name) for rule in rules for group in rule["apiGroups"] for name in rule["resources"]}
    assert allowed == {("", "pods")} | {(kind.group, kind.plural) for kind in KINDS}
    assert all(rule["verbs"] == ["list"] and set(rule) == {"apiGroups", "resources", "verbs"} for rule in rules)


def test_role_account_and_token_are_of_one_namespace_and_belong_together(tmp_path):
    found = objects(kustomize(FOLDER))
    assert {item["metadata"]["namespace"] for item in found} == {"train"}
    binding, token = one(found, "RoleBinding"), one(found, "Secret")
    account = one(found, "ServiceAccount")["metadata"]["name"]
    assert binding["roleRef"]["name"] == one(found, "Role")["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "train"}]
    assert token["metadata"]["annotations"] == {"kubernetes.io/service-account.name": account}
    assert not {"data", "stringData"} & set(token)
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all(found))
    validate = tool("kubernetes-validate", "pip install -r .ci/tools.txt")
    done = subprocess.run([validate, "--strict", str(file)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_kubeconfig_of_the_document_leads_the_source_to_the_server(tmp_path):
    commands = [line for line in SECTION.splitlines() if line.startswith("kubectl config ")]
    assert len(commands) == 4
    environ = os.environ | {"TOKEN": TOKEN, "HOME": str(tmp_path)}

    async def play() -> None:
        async with api_server(tmp_path) as server:
            file = tmp_path / "kubeconfig"
            url = yaml.safe_load(file.read_text())["clusters"][0]["cluster"]["server"]
            file.unlink()
            server.put(PODS, pod("a", "n1", labels={"app": "tr13"}))
            for command in commands:
                line = re.sub(r" --certificate-authority=\S+ --embed-certs", "", command)
                line = line.replace("https://API-SERVER:6443", url)
                line = line.replace("kubectl", tool("kubectl", "pip install -r .ci/tools.txt"), 1)
                subprocess.run(["sh", "-euc", line], cwd=tmp_path, env=environ, check=True, capture_output=True)
            match = KubernetesMatch(namespace="train", pods="app=tr13")
            source = KubernetesSource(KubernetesSettings(kubeconfig=file), [match], SystemClock())
            (job,) = await source.jobs()
            await source.aclose()
            assert [place.node for place in job.places] == ["n1"]

    asyncio.run(play())


def test_the_config_of_the_document_loads(tmp_path: Path):
    (text,) = re.findall(r"```yaml\n(.*?)```", SECTION, re.DOTALL)
    file = tmp_path / "c.yaml"
    file.write_text(text)
    (feed,) = build_feeds(load(file, DaemonConfig), FakeClock())
    assert [rule.name for rule in feed.rules] == ["tr11", "{name}", "tr12", "tr13"]
