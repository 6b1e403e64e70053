"""The dashboards are what their source makes, every query finds data, and they keep the rules of dashboard-linter."""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.grafana.source.__main__ import boards
from detectors.telemetry import GpuReading
from tests.support.backfill import Scrapes
from tests.support.prometheus import Prometheus, configuration, prometheus
from tests.support.watched_fleet import WatchedFleet
from watcher.simulate.fleet import Fleet
from watcher.simulate.script import SCRIPTS

FOLDER = Path(__file__).resolve().parents[2] / "deploy/grafana"
BOARDS = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
SECONDS = 1250.0
STRUCK = "GPU-00000001-0000-4000-8000-000000000003"
VALUES = {
    "$__rate_interval": "1m", "$__interval": "10s", "$__range": "20m", "$job": ".+", "$instance": ".+", "$node": ".+",
    "$run": "big-13B",
}  # fmt: skip


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


PANELS = [pytest.param(board, panel, id=f"{name}-{panel['title']}") for name, board in BOARDS.items()
          for panel in panels(board)]  # fmt: skip
MARKS = [pytest.param(mark, id=f"{name}-{mark['name']}") for name, board in BOARDS.items()
         for mark in board.get("annotations", {}).get("list", [])]  # fmt: skip
QUERIES = [pytest.param(target["expr"], id=f"{name}-{panel['title']}-{target['refId']}")
           for name, board in BOARDS.items() for panel in panels(board) for target in panel["targets"]]  # fmt: skip


@pytest.mark.parametrize("name", sorted(boards()))
def test_what_is_checked_in_is_what_the_source_makes(name):
    assert (FOLDER / name).read_text(encoding="utf-8") == boards()[name], "python -m deploy.grafana.source writes it"


def test_no_dashboard_is_left_over():
    assert set(BOARDS) == set(boards())


def test_the_provider_that_is_shown_reads_the_folder_that_the_document_fills():
    provider = yaml.safe_load((FOLDER / "provider.yaml").read_text())["providers"][0]
    assert f"-t {provider['options']['path']}" in (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in (FOLDER / "README.md").read_text(encoding="utf-8") for name in BOARDS)


# -- data -----------------------------------------------------------------------------------------------------------


def struck(reading: GpuReading, t: float) -> GpuReading:
    """One uncorrectable error while the run works."""
    return replace(reading, ecc_volatile_uncorrected_count=int(t >= 300)) if reading.uuid == STRUCK else reading


@pytest.fixture(scope="module")
def history(tmp_path_factory) -> Iterator[tuple[Prometheus, float]]:
    """A real Prometheus with twenty minutes of two runs: one hangs and is restarted, one loses sight of a node."""
    folder = tmp_path_factory.mktemp("history")
    fleets = {
        "big-13B": Fleet(script=SCRIPTS["deadlock"]),
        "small-7B": Fleet(script=SCRIPTS["dataloader"], nodes=("gpu-node-03", "gpu-node-04"), gpus=4),
    }
    started_at = math.floor(time.time()) - 2 * SECONDS
    scrapes = Scrapes()
    with ExitStack() as stack:
        fleet = WatchedFleet(folder, fleets, started_at, stack, struck)

        def scrape(now: float) -> None:
            scrapes.take(fleet.targets(), now)
            if now - started_at > 1000:
                fleet.here.silent.add("gpu-node-04")

        asyncio.run(fleet.play(SECONDS, scrape))
        end = fleet.clock.now
    with prometheus(folder, configuration({}), data=scrapes.write(folder)) as server:
        yield server, end


def filled(expr: str) -> str:
    for variable, value in VALUES.items():
        expr = expr.replace(variable, value)
    assert "$" not in expr, expr
    return expr


def values_of(server: Prometheus, expr: str, end: float) -> list[float]:
    series = server.query_range(filled(expr), end - SECONDS + 60, end, 10)
    return [float(value) for row in series for _, value in row["values"]]


@pytest.mark.parametrize(("board", "panel"), PANELS)
def test_every_query_of_a_panel_finds_data(history, board, panel):
    server, end = history
    for target in panel["targets"]:
        if target.get("instant"):
            found = [float(row["value"][1]) for row in server.query(filled(target["expr"]), at=end)]
        else:
            found = values_of(server, target["expr"], end)
        assert found, target["expr"]
        assert not all(math.isnan(value) for value in found), target["expr"]


@pytest.mark.parametrize("mark", MARKS)
def test_marks_are_there_when_something_happened_and_not_all_the_time(history, mark):
    server, end = history
    expr = mark["target"]["expr"]
    assert values_of(server, expr, end)
    assert not server.query(filled(expr), at=end - SECONDS + 200)
    assert mark["titleFormat"]


def test_a_hang_can_be_seen(history):
    """What a person looks for first: the state, the silence, the power of the odd GPU."""
    server, end = history
    hung_at = end - 350

    def value(title: str, name: str = "run.json") -> float:
        (panel,) = [p for p in panels(BOARDS[name]) if p["title"] == title and p["type"] == "stat"]
        (row,) = server.query(filled(panel["targets"][0]["expr"]), at=hung_at)
        return float(row["value"][1])

    assert value("State") == 9  # critical
    assert value("Silence") > 120
    assert value("Open incidents") == 2  # the hang and the ECC error
    (power,) = [p for p in panels(BOARDS["run.json"]) if p["title"] == "Power per GPU"]
    rows = {
        (row["metric"]["node"], row["metric"]["index"]): float(row["value"][1])
        for row in server.query(filled(power["targets"][0]["expr"]), at=hung_at)
    }
    assert len(rows) == 16
    assert min(rows, key=rows.__getitem__) == ("gpu-node-02", "5")


def test_a_choice_offers_what_there_is(history):
    server, end = history
    for board in BOARDS.values():
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                matched = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"])
                assert matched, variable["query"]
                found = {row["metric"].get(matched[2]) for row in server.query(filled(matched[1]), at=end)}
                assert found
                assert None not in found


# -- the rules of dashboard-linter ---------------------------------------------------------------------------------


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_a_dashboard_can_be_told_and_found_and_chooses_its_data_source(board):
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    assert board["title"].startswith("runwatch / ")
    assert re.fullmatch(r"runwatch-[a-z]+", board["uid"])
    assert board["description"].endswith(".")
    assert board["editable"] is False
    assert "runwatch" in board["tags"]
    assert (variables["datasource"]["query"], variables["datasource"]["label"]) == ("prometheus", "Data source")
    job = variables["job"]
    assert (job["multi"], job["includeAll"], job["allValue"], job["refresh"]) == (True, True, ".+", 2)
    assert all(v["datasource"]["uid"] == "${datasource}" for v in variables.values() if v["type"] == "query")
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize(("board", "panel"), PANELS)
def test_a_panel_says_what_it_shows_in_what_unit_and_from_where(board, panel):
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert panel["targets"]
    assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])
    position = panel["gridPos"]
    assert 0 < position["w"] <= 24 - position["x"]


def test_no_two_panels_lie_on_each_other():
    for board in BOARDS.values():
        taken: set[tuple[int, int]] = set()
        for panel in board["panels"]:
            place = panel["gridPos"]
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                     for y in range(place["y"], place["y"] + place["h"])}  # fmt: skip
            assert not taken & cells, panel["title"]
            taken |= cells


@pytest.mark.parametrize("expr", QUERIES)
def test_every_selector_names_the_jobs(expr):
    names = re.findall(r"\b(?:runwatch|process)_\w+(\{[^}]*\})?", expr)
    assert names
    assert all('job=~"$job"' in selector for selector in names)


@pytest.mark.parametrize("name", ["run.json", "node.json", "watchdog.json"])
def test_every_query_follows_the_choice_of_its_dashboard(name):
    own = {"run.json": 'run="$run"', "node.json": 'node=~"$node"', "watchdog.json": 'instance=~"$instance"'}[name]
    for panel in panels(BOARDS[name]):
        assert all(own in target["expr"] for target in panel["targets"]), panel["title"]


@pytest.mark.parametrize("expr", QUERIES)
def test_counters_are_rates_over_the_interval_of_the_graph_and_nothing_else_is(expr):
    rated = re.findall(r"(?:rate|increase)\((\w+)\{[^}]*\}\[([^\]]*)\]\)", expr)
    assert len(rated) == len(re.findall(r"\b(?:rate|increase)\(", expr))
    for metric, interval in rated:
        assert metric.endswith("_total")
        assert interval == "$__rate_interval"


def test_the_metrics_that_are_drawn_are_in_the_table():
    table = (FOLDER.parent / "metrics.md").read_text(encoding="utf-8")
    exported = set(re.findall(r"`(\w+_\w+)`", table))
    texts = [param.values[0] for param in QUERIES] + [param.values[0]["target"]["expr"] for param in MARKS]
    drawn = {name for text in texts for name in re.findall(r"\b(?:runwatch|process)_\w+(?=\{)", text)}
    assert drawn
    assert drawn <= exported
