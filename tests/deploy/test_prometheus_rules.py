"""The shipped rules: promtool takes them, they fire and stay quiet where they should, a person can act on them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.real_server import tool

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
FOLDER = DEPLOY / "prometheus"
FILES = sorted(FOLDER.glob("*.rules.yml"))
RUNBOOK = (FOLDER / "runbook.md").read_text(encoding="utf-8")
BASE = "https://runbooks.example.org/runwatch"
OTHERS = {"up", "process_start_time_seconds", "process_resident_memory_bytes"}  # every exporter has them


def rules() -> list[dict[str, Any]]:
    groups = [group for file in FILES for group in yaml.safe_load(file.read_text())["groups"]]
    return [rule for group in groups for rule in group["rules"]]


ALERTS = {rule["alert"]: rule for rule in rules() if "alert" in rule}
RECORDED = {rule["record"] for rule in rules() if "record" in rule}
TESTED = "\n".join(file.read_text() for file in FOLDER.glob("tests/*.test.yml"))


def test_promtool_finds_nothing_to_complain_of():
    command = [tool("promtool", "prometheus"), "check", "rules", "--lint=all", "--lint-fatal", *map(str, FILES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", sorted(FOLDER.glob("tests/*.test.yml")), ids=lambda file: file.name)
def test_rules_fire_and_stay_quiet(file):
    command = [tool("promtool", "prometheus"), "test", "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_files_check_and_stand_where_the_document_puts_them(tmp_path):
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    server = (FOLDER / "prometheus.example.yml").read_text()
    for path in re.findall(r"/etc/prometheus/[\w.-]+", server):
        assert Path(path).name in readme, path
        (tmp_path / Path(path).name).touch()
    for file in FILES:
        (tmp_path / file.name).write_text(file.read_text())
    (tmp_path / "runwatch-agents.yml").write_text(re.findall(r"echo '(.*)' >", readme)[0])
    (tmp_path / "prometheus.yml").write_text(server.replace("/etc/prometheus", str(tmp_path)))
    checks = [
        [tool("promtool", "prometheus"), "check", "config", str(tmp_path / "prometheus.yml")],
        [tool("amtool", "prometheus-alertmanager"), "check-config", str(FOLDER / "alertmanager.example.yml")],
    ]
    for command in checks:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_says_what_is_wrong_and_what_to_do(alert):
    rule = ALERTS[alert]
    assert rule["labels"]["severity"] in ("info", "warning", "critical")
    notes = rule["annotations"]
    assert notes["summary"].endswith(".")
    assert notes["description"].endswith(".")
    assert notes["runbook_url"] == f"{BASE}#{alert.lower()}"
    assert f"\n## {alert}\n" in RUNBOOK


def test_the_runbook_is_about_the_alerts_that_there_are():
    assert set(re.findall(r"^## (\w+)$", RUNBOOK, re.MULTILINE)) == set(ALERTS)


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_was_seen_firing_and_seen_quiet(alert):
    cases = re.findall(rf"alertname: {alert}\b(.*?)(?=eval_time|\Z)", TESTED, re.DOTALL)
    assert any("exp_alerts" in case for case in cases)
    assert any("exp_alerts" not in case for case in cases)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_asks_for_metrics_that_are_exported(rule):
    table = (DEPLOY / "metrics.md").read_text(encoding="utf-8")
    exported = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    asked = set(re.findall(r"(?<![\w:])(?:runwatch_|process_)\w+(?![\w:])", rule["expr"]))
    recorded = set(re.findall(r"[a-z_]+:[a-z_]+:\w+", rule["expr"]))
    assert asked <= exported | OTHERS
    assert recorded <= RECORDED
    assert asked or recorded or "up{" in rule["expr"]
