"""All runs and nodes on one screen: where is something wrong?"""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from deploy.grafana.source.board import board
from deploy.grafana.source.panels import GREEN, ORANGE, RED, graph, number, rows, strip
from deploy.grafana.source.queries import Query, metric
from deploy.grafana.source.states import STATE_WORDS, state_number

PLACES = f"max by (run, node) ({metric('runwatch_run_node_info')})"


def _open(severity: str) -> str:
    return f"sum({metric('runwatch_incidents_open', severity='=' + severity)})"


def _per_run(aggregate: str) -> str:
    """A value of each node, summed over the nodes of each run."""
    return f"sum by (run) ({PLACES} * on (node) group_left () {aggregate})"


def fleet() -> Dashboard:
    power = metric("runwatch_gpu_power_watts")
    busy = metric("runwatch_gpu_utilization_ratio")
    temperature = metric("runwatch_gpu_temperature_celsius")
    progress = metric("runwatch_run_last_progress_timestamp_seconds")
    return (
        board("runwatch-fleet", "runwatch / Fleet", "All runs and nodes that runwatch knows of, and what is wrong.")
        .with_row(Row("Now"))
        .with_panel(number("Runs", "In the daemon's config.", "none", Query(f"count({metric('runwatch_run_info')})")))
        .with_panel(
            number(
                "Critical", "Critical incidents that are open.", "none",
                Query(_open("critical")), steps=[(None, GREEN), (1, RED)],
            )
        )
        .with_panel(
            number(
                "Warnings", "Warnings that are open.", "none",
                Query(_open("warning")), steps=[(None, GREEN), (1, ORANGE)],
            )
        )
        .with_panel(
            number(
                "Agents that answer", "Share of the agents that answered the daemon last time.", "percentunit",
                Query(f"avg({metric('runwatch_agent_up')})"), steps=[(None, RED), (0.9, ORANGE), (1, GREEN)],
            )
        )
        .with_panel(number("GPUs", "GPUs that were read of late.", "none", Query(f"count({busy})")))
        .with_panel(
            number("Busy GPUs", "Share of the GPUs at 90 % or more. Busy is not progress.", "percentunit",
                   Query(f"avg({busy} >= bool 0.9)"))
        )
        .with_panel(number("Power", "Power that all boards draw.", "watt", Query(f"sum({power})"), spark=True, span=6))
        .with_panel(
            rows(
                "Runs",
                "Where each run stands. Silence is the time since a step or a phase's own counter last moved.",
                [
                    (f"max by (run) ({metric('runwatch_run_step')})", "Step", "none"),
                    (
                        f"max by (run) ({metric('runwatch_run_step')} / {metric('runwatch_run_target_steps')})",
                        "Done", "percentunit",
                    ),
                    (f"time() - max by (run) ({progress})", "Silence", "s"),
                    (f"max by (run) ({metric('runwatch_run_longest_gap_seconds')})", "Longest usual silence", "s"),
                    (f"max by (run) ({metric('runwatch_run_gpus')})", "GPUs", "none"),
                    (f"sum by (run) ({metric('runwatch_run_incidents_open')})", "Open incidents", "none"),
                ],
                key=["run"],
            )
        )
        .with_row(Row("Over time"))
        .with_panel(
            strip("State of the runs", "In one word: the worst open incident, else the phase.",
                  Query(state_number(".+"), "{{run}}"), STATE_WORDS)
        )
        .with_panel(
            graph("Silence of the runs", "Time since the run last made progress.", "s",
                  Query(f"time() - max by (run) ({progress})", "{{run}}"))
        )
        .with_panel(
            graph("Power of the runs", "Power of all boards of the run.", "watt",
                  Query(_per_run(f"sum by (node) ({power})"), "{{run}}"))
        )
        .with_panel(
            graph("Busy GPUs of the runs", "Share of the run's GPUs at 90 % or more.", "percentunit",
                  Query(f"{_per_run(f'sum by (node) ({busy} >= bool 0.9)')} / {_per_run(f'count by (node) ({busy})')}",
                        "{{run}}"), most=1)
        )
        .with_panel(
            graph("Open incidents", "By signature, over all runs.", "none",
                  Query(f"sum by (signature) ({metric('runwatch_run_incidents_open')}) > 0", "{{signature}}"), span=12)
        )
        .with_panel(
            graph("Agents that do not answer", "Agents that the daemon cannot reach.", "none",
                  Query(f"count({metric('runwatch_agent_up')} == 0) or vector(0)", "agents"), span=12)
        )
        .with_row(Row("Nodes to look at"))
        .with_panel(
            rows("Strikes", "Hardware strikes within a week: two, and the node should be left out.",
                 [(f"max by (node) ({metric('runwatch_node_strikes')}) > 0", "Strikes", "none")], key=["node"], span=8)
        )
        .with_panel(
            rows("Silent agents", "Nodes of which nothing is known now.",
                 [(f"max by (node) ({metric('runwatch_agent_up')}) == 0", "Answers", "none")], key=["node"], span=8)
        )
        .with_panel(
            rows("Hottest GPUs", "The ten hottest.",
                 [(f"topk(10, max by (node, gpu) ({temperature}))", "Temperature", "celsius")],
                 key=["node", "gpu"], span=8)
        )
    )  # fmt: skip
