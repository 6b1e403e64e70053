"""The manifests: valid by the schemas, alike from kustomize and helm, and with no more rights than they need."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.manifests import (
    CHART,
    KUBERNETES,
    Object,
    containers,
    helm,
    kustomize,
    objects,
    one,
    our_containers,
    pods,
)  # fmt: skip
from tests.support.tools import tool
from watcher import __version__
from watcher.cli.main import main

FOLDERS = sorted(
    file.parent
    for file in KUBERNETES.rglob("kustomization.yaml")
    if not {"components", "fleet-reader"} & set(file.parts)  # the latter has no pods: test_fleet_reader.py
)
COMPONENTS = sorted((KUBERNETES / "components").iterdir())
DAEMON = ("agent.enabled=false", "daemon.enabled=true")
CHARTS = {
    "agent": (),
    "daemon": DAEMON,
    "all": (
        "daemon.enabled=true", "agent.podMonitor=true", "daemon.serviceMonitor=true", "agent.containerLogs=true",
        "agent.hostPort=0", "agent.supplementalGroups={5000}", "image.tag=1.2.3", "imagePullSecrets[0].name=pull",
        "agent.allowFrom[0].ipBlock.cidr=192.0.2.1/32", "daemon.storage.className=block",
    ),
}  # fmt: skip


def with_component(component: Path, folder: Path) -> str:
    """The base that a component is for, with it."""
    base = "daemon" if component.name.endswith("daemon") else "agent"
    (folder / "kustomization.yaml").write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kustomize.config.k8s.io/v1beta1",
                "kind": "Kustomization",
                "resources": ["base"],
                "components": ["component"],
            }
        )
    )
    for name, source in (("base", KUBERNETES / "base" / base), ("component", component)):
        (folder / name).mkdir()
        for file in source.iterdir():
            (folder / name / file.name).write_bytes(file.read_bytes())
    return kustomize(folder)


@pytest.fixture(
    scope="module", params=[*FOLDERS, *COMPONENTS, *CHARTS], ids=lambda p: p if isinstance(p, str) else p.name
)
def rendered(request, tmp_path_factory) -> str:
    """Everything that can be rendered, one after the other."""
    if isinstance(request.param, str):
        return helm(*CHARTS[request.param])
    if request.param in COMPONENTS:
        return with_component(request.param, tmp_path_factory.mktemp("component"))
    return kustomize(request.param)


def test_manifests_are_valid_by_the_schemas_of_kubernetes(rendered, tmp_path):
    file = tmp_path / "all.yaml"
    core = [item for item in objects(rendered) if "coreos.com" not in item["apiVersion"]]  # its schemas are elsewhere
    file.write_text(yaml.safe_dump_all(core))
    validate = tool("kubernetes-validate", "pip install -r .ci/tools.txt")
    done = subprocess.run([validate, "--strict", str(file)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).count(" passed ") == len(core)


def test_configs_inside_the_manifests_pass_the_loader(rendered, tmp_path, capsys):
    checked = 0
    for item in objects(rendered):
        for name, text in item.get("data", {}).items() if item["kind"] == "ConfigMap" else ():
            (tmp_path / name).write_text(text)
            assert main(["check-config", str(tmp_path / name)]) == 0, capsys.readouterr().err
            checked += 1
    assert checked >= 1


def test_pods_have_no_more_rights_than_they_need(rendered):
    for pod in pods(objects(rendered)):
        assert not pod.get("automountServiceAccountToken", True)
        assert not any(pod.get(key) for key in ("hostNetwork", "hostPID", "hostIPC"))
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for volume in pod["volumes"]:
            if "hostPath" in volume:
                mounts = [m for c in our_containers(pod) for m in c["volumeMounts"] if m["name"] == volume["name"]]
                assert mounts
                assert all(mount["readOnly"] for mount in mounts), volume
        for container in our_containers(pod):
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert {"cpu", "memory"} == set(container["resources"]["requests"]) == set(container["resources"]["limits"])


def test_only_who_reads_the_logs_of_containers_runs_as_root(rendered):
    for pod in pods(objects(rendered)):
        root = any(volume.get("hostPath", {}).get("path") == "/var/log/pods" for volume in pod["volumes"])
        assert pod["securityContext"]["runAsNonRoot"] is not root
        assert (pod["securityContext"]["runAsUser"] == 0) is root


def test_every_mounted_volume_is_there_and_every_port_has_its_name(rendered):
    for pod in pods(objects(rendered)):
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in containers(pod):
            assert {mount["name"] for mount in container.get("volumeMounts", ())} <= volumes
            ports = {port["name"] for port in container.get("ports", ())}
            for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
                assert container.get(probe, {}).get("httpGet", {}).get("port", "") in {*ports, ""}


def test_configmaps_and_accounts_that_pods_name_are_among_the_objects(rendered):
    found = objects(rendered)
    names = {(item["kind"], item["metadata"]["name"]) for item in found}
    for pod in pods(found):
        for volume in pod["volumes"]:
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in names
            if "persistentVolumeClaim" in volume:
                assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in names
        if "serviceAccountName" in pod:
            assert ("ServiceAccount", pod["serviceAccountName"]) in names


def test_selectors_choose_the_pods_that_are_meant(rendered):
    found = objects(rendered)
    labels = [
        item["spec"]["template"]["metadata"]["labels"] for item in found if item["kind"] in ("DaemonSet", "Deployment")
    ]
    for item in found:
        spec = item.get("spec", {})
        selector = spec.get("podSelector", spec.get("selector"))
        if item["kind"] == "NetworkPolicy":
            assert selector["matchLabels"], "an empty selector would take every pod of the namespace"
        if selector is not None and item["kind"] != "PersistentVolumeClaim":
            wanted = selector.get("matchLabels", selector)
            assert sum(wanted.items() <= given.items() for given in labels) == 1, item["kind"]


def without_what_differs(pod: Object) -> Object:
    """Names of config maps carry a hash in kustomize; helm names a pull policy."""
    for volume in pod["volumes"]:
        volume.get("configMap", {})["name"] = "config"
    for container in pod["containers"]:
        container.pop("imagePullPolicy", None)
    return pod


@pytest.mark.parametrize(("base", "settings"), [("agent", ()), ("daemon", DAEMON)])
def test_kustomize_and_helm_make_the_same_pods(base, settings):
    (plain,) = pods(objects(kustomize(KUBERNETES / "base" / base)))
    (charted,) = pods(objects(helm(*settings)))
    assert without_what_differs(plain) == without_what_differs(charted)


def test_liveness_of_the_agent_is_not_that_of_the_driver():
    agent = one(objects(kustomize(KUBERNETES / "base/agent")), "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    assert agent["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert agent["readinessProbe"]["httpGet"]["path"] == "/healthz"


@pytest.mark.parametrize("part", ["agent", "daemon"])
def test_probes_of_the_chart_speak_tls_where_the_process_does(part):
    cert = f"{part}.config.{part}.tls.cert_file=/c,{part}.config.{part}.tls.key_file=/k"
    for settings, scheme in (((), None), ((cert,), "HTTPS")):
        found = objects(helm("daemon.enabled=true", *settings))
        pod = one(found, "DaemonSet" if part == "agent" else "Deployment")["spec"]["template"]["spec"]
        for probe in ("livenessProbe", "readinessProbe"):
            assert pod["containers"][0][probe]["httpGet"].get("scheme") == scheme


def test_there_is_never_a_second_daemon():
    spec = one(objects(kustomize(KUBERNETES / "base/daemon")), "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_the_chart_lints_and_is_of_this_version():
    done = subprocess.run([tool("helm", ".ci/helm"), "lint", "--strict", str(CHART)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == chart["version"] == __version__


@pytest.mark.parametrize("setting", ["agnet.enabled=false", "agent.hostport=1", "agent.logsHostPath=logs"])
def test_a_wrong_value_is_said_and_not_passed_over(setting):
    helm_path = tool("helm", ".ci/helm")
    done = subprocess.run([helm_path, "template", "rw", str(CHART), "--set", setting], capture_output=True, text=True)
    assert done.returncode != 0
    assert setting.partition("=")[0].rpartition(".")[2] in done.stderr or "agnet" in done.stderr


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_images_are_of_this_version(folder):
    for pod in pods(objects(kustomize(folder))):
        assert {container["image"].rpartition(":")[2] for container in our_containers(pod)} == {__version__}
