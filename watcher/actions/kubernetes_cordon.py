"""Cordons a node in Kubernetes: pods stay, no new ones are placed there."""

from __future__ import annotations

from pydantic import Field

from alerts.actions import Due
from watcher.actions._api import ActionConfig, ActionPlugin


class KubernetesCordon(ActionConfig):
    """`kubectl`: the program. `context`: of its configuration, default the current one."""

    kubectl: str = Field(default="kubectl", min_length=1)
    context: str | None = None


def argv(section: KubernetesCordon, due: Due) -> tuple[str, ...]:
    context = () if section.context is None else ("--context", section.context)
    return (section.kubectl, *context, "cordon", "--", due.target)


PLUGIN = ActionPlugin("kubernetes_cordon", KubernetesCordon, argv)
