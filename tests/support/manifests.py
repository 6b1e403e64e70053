"""The Kubernetes objects of deploy/, as kustomize and helm make them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.support.tools import tool

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
CHART = DEPLOY / "helm/runwatch"
Object = dict[str, Any]


def kustomize(folder: Path) -> str:
    kubectl = tool("kubectl", "pip install -r .ci/tools.txt")
    return _out(kubectl, "kustomize", str(folder))


def helm(*settings: str) -> str:
    """The chart with `--set` of each of these."""
    sets = [word for setting in settings for word in ("--set", setting)]
    return _out(tool("helm", ".ci/helm"), "template", "rw", str(CHART), *sets)


def objects(text: str) -> list[Object]:
    return [found for found in yaml.safe_load_all(text) if found]


def one(found: list[Object], kind: str) -> Object:
    (wanted,) = (item for item in found if item["kind"] == kind)
    return wanted


def pods(found: list[Object]) -> Iterator[Object]:
    """The pod specs of all workloads."""
    for item in found:
        if item["kind"] in ("DaemonSet", "Deployment", "Job", "StatefulSet"):
            yield item["spec"]["template"]["spec"]


def containers(pod: Object) -> list[Object]:
    return [*pod.get("initContainers", ()), *pod["containers"]]


def our_containers(pod: Object) -> list[Object]:
    return [container for container in containers(pod) if "/runwatch:" in container["image"]]


def _out(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout
