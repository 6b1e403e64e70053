"""The compose file: valid, pinned, closed to others, and every file it mounts is there and accepted by who reads it."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.tools import tool
from watcher import __version__

COMPOSE = Path(__file__).resolve().parents[2] / "deploy/compose"
MADE = {"./runwatch.yaml": "runwatch.example.yaml", "./agents.yml": "agents.example.yml"}  # copied by the person


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
    return loaded


def mounts(service: dict[str, Any]) -> dict[str, Path]:
    """Path inside -> the file of the tree that is mounted there; named volumes left out."""
    split = (volume.split(":") for volume in service.get("volumes", ()))
    return {words[1]: COMPOSE / MADE.get(words[0], words[0]) for words in split if words[0].startswith(".")}


def test_it_is_valid_by_the_compose_specification():
    try:
        specification = importlib.import_module("compose_spec")
    except ImportError:
        assert "CI" not in os.environ, "CI has no compose-spec"
        pytest.skip("needs compose-spec (pip install -r .ci/tools.txt)")
    options = specification.PyOptions()
    options.apply_merge = True
    parsed = options.from_yaml((COMPOSE / "compose.yaml").read_text())
    parsed.validate()
    with pytest.raises(ValueError, match="unknown variant `sometimes`"):
        specification.PyCompose.from_yaml("services: {x: {image: x, restart: sometimes}}")


def test_images_are_pinned_and_ours_is_of_this_version(compose):
    for name, service in compose["services"].items():
        assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", service["image"]), name
    assert compose["services"]["runwatch"]["image"] == f"runwatch:{__version__}"


def test_nothing_is_open_to_others_and_nothing_has_rights(compose):
    for name, service in compose["services"].items():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), name
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_what_is_mounted_is_there_and_cannot_be_written(compose):
    for service in compose["services"].values():
        for volume in service["volumes"]:
            source, _, rest = volume.partition(":")
            assert rest.endswith(":ro") or source in compose["volumes"]
        assert all(path.exists() for path in mounts(service).values())
        assert set(service.get("secrets", ())) <= set(compose["secrets"])


def test_secrets_that_configs_name_are_given_to_who_reads_them(compose):
    for service in compose["services"].values():
        texts = [path.read_text() for path in mounts(service).values() if path.is_file()]
        texts += [str(value) for value in service.get("environment", {}).values()]
        named = {name for text in texts for name in re.findall(r"/run/secrets/([\w.-]*\w)", text)}
        assert named == set(service.get("secrets", ()))


def test_the_secrets_are_those_that_the_document_makes(compose):
    document = (COMPOSE / "README.md").read_text()
    for name, secret in compose["secrets"].items():
        assert secret["file"] == f"secrets/{name}"
        assert name in document


def test_prometheus_takes_its_config_with_rules_and_targets(compose, tmp_path):
    inside = mounts(compose["services"]["prometheus"])
    text = (COMPOSE / "prometheus.yml").read_text()
    (tmp_path / "rules").mkdir()
    for path, source in inside.items():
        if "/rules/" in path:
            (tmp_path / "rules" / Path(path).name).write_text(source.read_text())
    for name in compose["secrets"]:
        (tmp_path / name).write_text("x")
    text = text.replace("/etc/prometheus/agents.yml", str(COMPOSE / MADE["./agents.yml"]))
    text = text.replace("/etc/prometheus/rules", str(tmp_path / "rules")).replace("/run/secrets", str(tmp_path))
    (tmp_path / "prometheus.yml").write_text(text)
    promtool = tool("promtool", "Debian package prometheus")
    done = subprocess.run(
        [promtool, "check", "config", "--lint-fatal", str(tmp_path / "prometheus.yml")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("rules found") == 2


def test_every_service_that_prometheus_asks_is_one_of_ours_on_its_port(compose):
    config = yaml.safe_load((COMPOSE / "prometheus.yml").read_text())
    asked = [job for job in config["scrape_configs"] if "static_configs" in job] + config["alerting"]["alertmanagers"]
    for group in asked:
        for target in group["static_configs"][0]["targets"]:
            host, port = target.split(":")
            assert any(published.endswith(f":{port}") for published in compose["services"][host]["ports"])


def test_alertmanager_takes_its_config():
    amtool = tool("amtool", "Debian package prometheus-alertmanager")
    done = subprocess.run([amtool, "check-config", str(COMPOSE / "alertmanager.yml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_grafana_finds_its_dashboards_and_its_data(compose):
    inside = mounts(compose["services"]["grafana"])
    (provider,) = (path for place, path in inside.items() if "provisioning/dashboards" in place)
    folder = yaml.safe_load(provider.read_text())["providers"][0]["options"]["path"]
    assert len(list(inside[folder].glob("*.json"))) >= 4
    (source,) = yaml.safe_load((COMPOSE / "grafana-datasource.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
