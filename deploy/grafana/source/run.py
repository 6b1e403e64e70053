"""One run: does it make progress, and what do its GPUs do?"""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from deploy.grafana.source.board import Marks, board, choice
from deploy.grafana.source.panels import BLUE, GREEN, ORANGE, RED, graph, heat, number, rows, strip, words
from deploy.grafana.source.queries import Query, by_index, metric, of_run, rate
from deploy.grafana.source.states import PHASE_WORDS, STATE_WORDS, phase_number, state_number


def _of(name: str) -> str:
    return metric(f"runwatch_run_{name}", run="=$run")


def _max(name: str) -> str:
    return f"max by (run) ({_of(name)})"


def _gpu(name: str) -> str:
    return metric(f"runwatch_gpu_{name}", node="$node")


def run() -> Dashboard:
    silence = f"time() - {_max('last_progress_timestamp_seconds')}"
    open_now = f"sum by (run, signature) ({_of('incidents_open')})"
    return (
        board(
            "runwatch-run", "runwatch / Run", "One training run: progress, phases, power and utilization, incidents.",
            choice("run", "Run", 'label_values(runwatch_run_info{job=~"$job"}, run)'),
            choice("node", "Nodes", 'label_values(runwatch_run_node_info{job=~"$job",run="$run"}, node)', many=True),
        )
        .annotation(Marks("Incidents", f"{open_now} > 0", "{{signature}}", RED))
        .annotation(Marks("Launches", f"changes({_of('attempt')}[1m]) > 0", "launched anew", BLUE))
        .with_row(Row("Now"))
        .with_panel(words("State", "The worst open incident, or the phase.", Query(state_number("=$run")), STATE_WORDS))
        .with_panel(number("Step", "Last step that the log told of.", "none", Query(_max("step"))))
        .with_panel(
            number("Done", "Share of the steps at which the run is complete.", "percentunit",
                   Query(f"{_max('step')} / {_max('target_steps')}"))
        )
        .with_panel(
            number("Silence", "Time since a step or a phase's own counter last moved.", "s", Query(silence),
                   steps=[(None, GREEN), (240, ORANGE), (600, RED)])
        )
        .with_panel(
            number("Longest usual silence", "Longest learnt time between two signs of progress in this phase.", "s",
                   Query(_max("longest_gap_seconds")))
        )
        .with_panel(
            number("Throughput", "As the log prints it; the unit stands beside it.", "none",
                   Query(f"max by (run, unit) ({_of('throughput')})", "{{unit}}"))
        )
        .with_panel(number("Loss", "Last loss that was logged.", "none", Query(_max("loss"))))
        .with_panel(
            number("Open incidents", "Of this run.", "none", Query(f"sum({_of('incidents_open')})"),
                   steps=[(None, GREEN), (1, RED)])
        )
        .with_row(Row("Progress"))
        .with_panel(strip("Phase", "What the run was doing.", Query(phase_number("=$run"), "{{run}}"), PHASE_WORDS))
        .with_panel(graph("Step", "A flat line is a run that stands still.", "none", Query(_max("step"), "step")))
        .with_panel(
            graph("Silence and what is usual", "Time since the run last made progress, beside what it has shown.", "s",
                  Query(silence, "silence"), Query(_max("longest_gap_seconds"), "longest usual"),
                  Query(_max("median_gap_seconds"), "median"))
        )
        .with_panel(
            graph("Step time", "Time of one step, as printed or derived.", "s",
                  Query(_max("step_duration_seconds"), "step time"))
        )
        .with_panel(
            graph("Throughput", "As the log prints it, never converted.", "none",
                  Query(f"max by (run, unit) ({_of('throughput')})", "{{unit}}"))
        )
        .with_panel(graph("Loss", "As logged; gaps are NaN.", "none", Query(_max("loss"), "loss")))
        .with_panel(graph("Gradient norm", "As logged.", "none", Query(_max("gradient_norm"), "gradient norm")))
        .with_row(Row("GPUs"))
        .with_panel(
            heat("Power per GPU",
                 "A row for each GPU of the chosen nodes. A hang is a dark band; the row that differs is to blame.",
                 "watt",
                 Query(of_run(by_index(_gpu("power_watts"))), "{{node}} gpu {{index}}"))
        )
        .with_panel(
            graph("Power and the learnt band", "Lowest, mean and highest GPU, and the power at which this run works.",
                  "watt",
                  Query(f"min({of_run(_gpu('power_watts'))})", "lowest"),
                  Query(f"avg({of_run(_gpu('power_watts'))})", "mean"),
                  Query(f"max({of_run(_gpu('power_watts'))})", "highest"),
                  Query(_max("working_power_watts"), "learnt"),
                  Query(f"{_max('working_power_watts')} - 3 * {_max('working_power_spread_watts')}", "learnt, low end"))
        )
        .with_panel(
            graph("Utilization", "Share of time in which any kernel ran: 100 % is not progress.", "percentunit",
                  Query(f"min({of_run(_gpu('utilization_ratio'))})", "lowest"),
                  Query(f"avg({of_run(_gpu('utilization_ratio'))})", "mean"), most=1)
        )
        .with_panel(
            graph("Memory accesses", "Share of time in which memory was accessed: near 0 in a spin.", "percentunit",
                  Query(f"avg({of_run(_gpu('memory_utilization_ratio'))})", "mean"), most=1)
        )
        .with_panel(
            heat("Utilization per GPU", "A row for each GPU of the chosen nodes.", "percentunit",
                 Query(of_run(by_index(_gpu("utilization_ratio"))), "{{node}} gpu {{index}}"))
        )
        .with_panel(
            graph("Memory in use", "Of all GPUs of the run.", "bytes",
                  Query(f"sum({of_run(_gpu('memory_used_bytes'))})", "in use"),
                  Query(f"sum({of_run(_gpu('memory_size_bytes'))})", "there is"))
        )
        .with_panel(
            graph("NVLink", "Data over all NVLinks of a node, both directions.", "Bps",
                  Query(f"sum by (node) ({of_run(_gpu('nvlink_bytes_per_second'))})", "{{node}}"))
        )
        .with_panel(
            graph("Processes of the run", "CPU cores that the processes which hold its GPUs use.", "none",
                  Query(of_run(metric("runwatch_host_run_cpu_cores", node="$node")), "{{node}}"))
        )
        .with_row(Row("Incidents and logs"))
        .with_panel(
            graph("Open incidents", "By signature.", "none", Query(f"{open_now} > 0", "{{signature}}"), span=12)
        )
        .with_panel(
            graph("Records of the step counter", "Read by the agents of the run's nodes, a second.", "none",
                  Query(of_run(rate("runwatch_agent_log_steps_total", node="$node")), "{{node}}"), span=12)
        )
        .with_panel(
            rows("Incidents since the start of the daemon", "Opened, by signature.",
                 [
                     (f"sum by (signature) ({_of('incidents_opened_total')}) > 0", "Opened", "none"),
                     (f"sum by (signature) ({_of('incidents_open')})", "Open now", "none"),
                 ], key=["signature"])
        )
    )  # fmt: skip
