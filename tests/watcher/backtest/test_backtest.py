"""The rules over the history of a real Prometheus: a hang at its time, quiet where all was well or nobody looked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.prometheus import configuration, prometheus
from tests.support.runs import FREE, SPIN, WORK, Level
from tests.support.tape import Tape
from watcher.cli._command import UsageError
from watcher.cli.backtest import instant
from watcher.cli.main import main

START = 1_790_000_000.0
HOUR = 3600.0
HANG = 2_700.0
LONG = 3 * HOUR


def hanging(node: str, index: int, t: float) -> Level | None:
    return WORK if t < HANG else SPIN


def patchy(node: str, index: int, t: float) -> Level | None:
    """One node is not scraped for 20 minutes, later nothing is for half an hour."""
    if 3_000 < t < 4_200 and node == "p1":
        return None
    return None if 6_000 < t < 7_800 else WORK


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("history")
    tape = Tape()
    tape.fleet(START, HOUR + 900, ("h1", "h2"), 4, hanging)
    tape.fleet(START, LONG, ("q1", "q2"), 2, lambda node, index, t: WORK)
    tape.fleet(START, LONG, ("p1", "p2"), 2, patchy)
    tape.fleet(START, HOUR, ("e1",), 2, lambda node, index, t: WORK if t < 1_800 else FREE)
    for tick in range(120):
        tape.add("train_step", {"run": "ends"}, START + 15 * tick, tick)
        tape.add("train_total", {"run": "ends"}, START + 15 * tick, 119)
    for tick in range(int(LONG / 15)):
        t = 15.0 * tick
        tape.add("train_step", {"run": "quiet"}, START + t, tick // 2)
        if not 6_000 < t < 7_800:
            tape.add("train_step", {"run": "patchy"}, START + t, tick // 2)
        tape.add("runwatch_run_step", {"run": "hanging"}, START + t, min(tick, int(HANG / 15)) // 2)
    with prometheus(folder, configuration({}), data=tape.write(folder)) as server:
        yield server.url


def backtest(url: str, capsys: Any, seconds: float, *more: str) -> tuple[int, list[dict[str, Any]]]:
    code = main(
        ["backtest", "--prometheus", url, "--from", str(START), "--to", str(START + seconds), "--json", *more]
    )  # fmt: skip
    out = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return code, out


def opened(items: list[dict[str, Any]]) -> dict[str, float]:
    return {item["signature"]: item["at"] - START for item in items if item["event"] == "opened"}


def test_a_hang_in_the_history_is_found_when_the_daemon_would_have_found_it(url, capsys):
    code, items = backtest(url, capsys, HOUR + 900, "--run", "hanging", "--nodes", "h[1-2]")
    assert code == 1
    found = opened(items)
    assert list(found) == ["low_power_deadlock"]
    assert HANG + 100 < found["low_power_deadlock"] < HANG + 400
    summary = items[-1]
    assert summary["event"] == "summary"
    assert summary["opened"] == {"low_power_deadlock": 1}
    assert summary["pages"] == {"low_power_deadlock": 1}
    assert summary["pages_per_day"] == pytest.approx(86_400 / (HOUR + 900), rel=0.01)
    assert summary["seen_ratio"] > 0.98


def test_a_run_that_reaches_its_total_is_complete_and_no_trouble(url, capsys, tmp_path):
    config = tmp_path / "runwatch.yaml"
    config.write_text(f"""
runs:
  - name: ends
    nodes: "e1"
    progress:
      prometheus: {{url: "{url}", step: 'train_step{{run="ends"}}', total_steps: 'train_total{{run="ends"}}'}}
""")
    code, items = backtest(url, capsys, HOUR, "--config", str(config), "--step", "15")
    assert code == 0
    assert list(opened(items)) == ["completed"]


def test_hours_of_health_raise_nothing(url, capsys):
    code, items = backtest(
        url, capsys, LONG, "--nodes", "q1,q2", "--progress", 'train_step{run="quiet"}', "--step", "30"
    )
    assert code == 0
    assert opened(items) == {}
    assert items[-1]["steps"]["run"] > 300


def test_what_nobody_scraped_is_unknown_and_no_incident(url, capsys):
    code, items = backtest(
        url, capsys, LONG, "--nodes", "p1,p2", "--progress", 'train_step{run="patchy"}', "--step", "15"
    )
    assert (code, opened(items)) == (0, {})
    assert 0.7 < items[-1]["seen_ratio"] < 0.85


def test_a_config_names_runs_nodes_counters_and_the_engine(url, capsys, tmp_path):
    config = tmp_path / "runwatch.yaml"
    config.write_text(f"""
daemon:
  interval_seconds: 20
  telemetry: [{{prometheus: {{url: "http://elsewhere", node_label: instance}}}}]
runs:
  - name: hanging
    nodes: h[1-2]
    progress: {{prometheus: {{url: "{url}", step: 'runwatch_run_step{{run="hanging"}}'}}}}
  - {{name: quiet, nodes: "q[1-2]", progress: {{prometheus: {{url: "{url}", step: 'train_step{{run="quiet"}}'}}}}}}
""")
    code, items = backtest(url, capsys, HOUR, "--config", str(config))
    assert code == 1
    assert [(item["signature"], item["run"]) for item in items if item["event"] == "opened"] == [
        ("low_power_deadlock", "hanging")
    ]


def test_nodes_are_found_where_none_are_named(url, capsys):
    code, items = backtest(url, capsys, 600, "--selector", 'Hostname=~"q.*"', "--step", "60")
    assert code == 0
    assert items[-1]["seen_ratio"] > 0.8


def test_for_people_it_ends_with_incidents_and_pages_a_day(url, capsys):
    main(["backtest", "--prometheus", url, "--from", str(START), "--to", str(START + 600), "--nodes", "q1"])
    told = capsys.readouterr()
    assert "pages: 0, 0 a day" in told.out
    assert "no step of run was found: only its GPUs were judged" in told.err


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--to", "yesterday"], "no time"),
        (["--to", "now-100w"], "--from must be before --to"),
        (["--step", "0"], "--step must be from 1 to 300"),
        (["--metrics", "dcgm"], "--metrics: no exporter is called 'dcgm'"),
        (["--nodes", "n["], "--nodes: not a hostlist"),
        (["--from", "nan"], "'nan' is no time"),
        (["--to", "inf"], "'inf' is no time"),
        (["--prometheus", "prometheus:9090"], "--prometheus: must begin with http://"),
        (["--run", "a/../b\n"], "--run: String should match"),
        (["--progress", "sum(train_step)"], "--progress: must be a plain selector"),
        (["--prometheus", "http://127.0.0.1:1", "--nodes", "n1"], "cannot connect"),
        (["--selector", 'a="nobody"'], "see --node-label"),
        (["--config", "/nowhere.yaml"], "/nowhere.yaml"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(url, capsys, more, told):
    code = main(["backtest", "--prometheus", url, "--from", str(START), "--to", str(START + 600), *more])
    assert code == 2
    assert told in capsys.readouterr().err


def test_times_are_written_as_people_write_them():
    now = 1_700_000_000.0
    assert instant("now-1.5h", now) == now - 5400
    assert instant("1699999999", now) == 1_699_999_999
    assert instant("2026-01-31T12:00Z", now) == datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()
    assert instant("2026-01-31", now) == datetime(2026, 1, 31, tzinfo=UTC).timestamp()
    with pytest.raises(UsageError):
        instant("soon", now)
