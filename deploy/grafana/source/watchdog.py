"""The watchdog itself: does it see, judge and reach people?"""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from deploy.grafana.source.board import board, choice
from deploy.grafana.source.panels import GREEN, ORANGE, RED, graph, number
from deploy.grafana.source.queries import Query, increase, metric, rate


def _own(name: str, **labels: str) -> str:
    return metric(name, instance="$instance", **labels)


def _rate(name: str) -> str:
    return rate(name, instance="$instance")


def _increase(name: str) -> str:
    return increase(name, instance="$instance")


def watchdog() -> Dashboard:
    age = [(None, GREEN), (60, ORANGE), (120, RED)]
    return (
        board(
            "runwatch-watchdog", "runwatch / Watchdog", "Whether runwatch itself works: daemon, agents, delivery.",
            choice("instance", "Instances", 'label_values({__name__=~"runwatch_build_info|runwatch_agent_info",'
                   'job=~"$job"}, instance)', many=True),
        )
        .with_row(Row("Now"))
        .with_panel(
            number("Daemon", "Daemons that Prometheus can ask.", "none",
                   Query(f"count({_own('runwatch_build_info')}) or vector(0)"), steps=[(None, RED), (1, GREEN)])
        )
        .with_panel(
            number("Last good cycle", "Since asking, judging, storing and sending all worked.", "s",
                   Query(f"time() - max({_own('runwatch_last_good_cycle_timestamp_seconds')})"), steps=age)
        )
        .with_panel(
            number("Database", "1 while it takes what is decided.", "none", Query(f"min({_own('runwatch_store_up')})"),
                   steps=[(None, RED), (1, GREEN)])
        )
        .with_panel(
            number("Dead-man ping", "Since the URL outside last took one.", "s",
                   Query(f"time() - max({_own('runwatch_dead_man_last_success_timestamp_seconds')})"),
                   steps=[(None, GREEN), (300, ORANGE), (900, RED)])
        )
        .with_panel(
            number("Messages that wait", "Over all channels.", "none",
                   Query(f"sum({_own('runwatch_deliveries_pending')})"), steps=[(None, GREEN), (1, ORANGE)])
        )
        .with_panel(
            number("Agents down", "Agents that did not answer the daemon last time.", "none",
                   Query(f"count({_own('runwatch_agent_up')} == 0) or vector(0)"), steps=[(None, GREEN), (1, ORANGE)])
        )
        .with_panel(
            number("Oldest reading", "Of all agents that answer.", "s",
                   Query(f"max({_own('runwatch_agent_data_age_seconds')})"), steps=age)
        )
        .with_panel(
            number("Detector failures", "Exceptions since the start.", "none",
                   Query(f"sum({_own('runwatch_detector_failures_total')})"), steps=[(None, GREEN), (1, RED)])
        )
        .with_row(Row("Daemon"))
        .with_panel(
            graph("Cycle", "How long a cycle takes, beside the interval that it has.", "s",
                  Query(_own("runwatch_tick_duration_seconds"), "{{instance}} takes"),
                  Query(_own("runwatch_interval_seconds"), "{{instance}} interval"))
        )
        .with_panel(
            graph("Cycles", "A second, and those that failed or were not judged.", "none",
                  Query(_rate("runwatch_ticks_total"), "{{instance}} all"),
                  Query(_rate("runwatch_tick_errors_total"), "{{instance}} failed"),
                  Query(_rate("runwatch_ticks_skipped_total"), "{{instance}} not judged"))
        )
        .with_panel(
            graph("Detector failures", "New ones in each interval.", "none",
                  Query(f"sum by (detector) ({_increase('runwatch_detector_failures_total')})", "{{detector}}"))
        )
        .with_row(Row("Incidents and delivery"))
        .with_panel(
            graph("Open incidents", "Over all runs and the watchdog itself.", "none",
                  Query(f"sum by (severity) ({_own('runwatch_incidents_open')})", "{{severity}}"))
        )
        .with_panel(
            graph("Deliveries", "Attempts in each interval, by result.", "none",
                  Query(f"sum by (channel, result) ({_increase('runwatch_deliveries_total')})",
                        "{{channel}} {{result}}"))
        )
        .with_panel(
            graph("Messages that wait", "By channel; a channel that is down keeps them.", "none",
                  Query(_own("runwatch_deliveries_pending"), "{{channel}}"))
        )
        .with_panel(
            graph("Since the last message went out", "By channel. Long is fine while nothing waits.", "s",
                  Query(f"time() - {_own('runwatch_delivery_last_success_timestamp_seconds')}", "{{channel}}"), span=12)
        )
        .with_panel(
            graph("Incidents opened", "In each interval, by signature.", "none",
                  Query(f"sum by (signature) ({_increase('runwatch_run_incidents_opened_total')})", "{{signature}}"),
                  span=12)
        )
        .with_row(Row("Agents"))
        .with_panel(
            graph("Oldest readings", "The ten oldest.", "s",
                  Query(f"topk(10, {_own('runwatch_agent_data_age_seconds')})", "{{node}}"))
        )
        .with_panel(
            graph("Clocks", "The ten that differ most from the daemon's.", "s",
                  Query(f"topk(10, abs({_own('runwatch_agent_clock_skew_seconds')}))", "{{node}}"))
        )
        .with_panel(
            graph("Time since a daemon asked", "The ten longest.", "s",
                  Query(f"topk(10, time() - {_own('runwatch_agent_last_snapshot_request_timestamp_seconds')})",
                        "{{node}}"))
        )
        .with_panel(
            graph("Readers that hung or crashed", "New ones in each interval, over all agents.", "none",
                  Query(f"sum({_increase('runwatch_agent_gpu_reader_replacements_total')})", "readers"),
                  Query(f"sum({_increase('runwatch_agent_log_reads_late_total')})", "late reads of logs"))
        )
        .with_panel(
            graph("Logs", "A second, over all agents.", "none",
                  Query(f"sum({_rate('runwatch_agent_log_steps_total')})", "step records"),
                  Query(f"sum({_rate('runwatch_agent_log_reported_errors_total')})", "errors told of"),
                  Query(f"sum({_rate('runwatch_agent_log_rotations_total')})", "rotations"),
                  Query(f"sum({_rate('runwatch_agent_log_errors_total')})", "file system errors"))
        )
        .with_panel(
            graph("Log bytes that were skipped", "A second: more was written than can be read.", "Bps",
                  Query(f"sum({_rate('runwatch_agent_log_skipped_bytes_total')})", "skipped"))
        )
        .with_row(Row("What it costs"))
        .with_panel(
            graph("CPU", "Seconds of CPU a second, the ten that use most.", "percentunit",
                  Query(f"topk(10, {_rate('process_cpu_seconds_total')})", "{{job}} {{instance}}"), span=12)
        )
        .with_panel(
            graph("Memory", "Resident, the ten that hold most.", "bytes",
                  Query(f"topk(10, {_own('process_resident_memory_bytes')})", "{{job}} {{instance}}"), span=12)
        )
    )  # fmt: skip
