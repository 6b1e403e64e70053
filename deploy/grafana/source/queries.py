"""Selectors and queries: every one names the jobs, so that one Prometheus can hold two watchdogs."""

from __future__ import annotations

from dataclasses import dataclass

from grafana_foundation_sdk.models.dashboard import DataSourceRef

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
RATE = "[$__rate_interval]"


@dataclass(frozen=True)
class Query:
    """`legend`: as Grafana writes it, {{label}}."""

    expr: str
    legend: str = ""


def metric(name: str, **labels: str) -> str:
    """A selector; every one names the jobs. A value is a regular expression, or with a leading `=` a plain word."""
    matchers = ['job=~"$job"']
    for label, value in labels.items():
        matchers.append(f'{label}="{value[1:]}"' if value.startswith("=") else f'{label}=~"{value}"')
    return f"{name}{{{','.join(matchers)}}}"


def rate(name: str, **labels: str) -> str:
    return f"rate({metric(name, **labels)}{RATE})"


def increase(name: str, **labels: str) -> str:
    return f"increase({metric(name, **labels)}{RATE})"


def of_run(expr: str) -> str:
    """Series of nodes and GPUs: those of the run that was chosen."""
    return f"{expr} and on (node) max by (node) ({metric('runwatch_run_node_info', run='=$run')})"


def by_index(expr: str) -> str:
    """Series of GPUs with the index that people know them by."""
    info = metric("runwatch_gpu_info", node="$node")
    return f"{expr} * on (node, gpu) group_left (index) max by (node, gpu, index) ({info})"
