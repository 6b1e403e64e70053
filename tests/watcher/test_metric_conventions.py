"""All metrics of agent and daemon by the conventions of Prometheus, in both formats it may ask for."""

from __future__ import annotations

import asyncio
import re
import subprocess
from contextlib import ExitStack

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.support.full_agent import full_agent, registry_of
from tests.support.real_server import tool
from tests.support.watched_fleet import WatchedFleet
from watcher.simulate.fleet import Fleet
from watcher.simulate.script import SCRIPTS

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
UNITS = r"(seconds|bytes|watts|joules|celsius|hertz|ratio|cores|per_second)"
SUFFIX = re.compile(rf"_{UNITS}$")
FOREIGN_UNIT = re.compile(r"_(milliseconds|ms|minutes|hours|days|kb|mb|gb|kib|mib|gib|mhz|percent|kw|celcius)(_|$)")
UNBOUNDED = {"pid", "step", "message", "error", "text", "path", "job", "instance", "attempt", "key"}


@pytest.fixture(scope="module")
def registries(tmp_path_factory) -> dict[str, CollectorRegistry]:
    """The agent with all there is to read, and the daemon over a run that hung."""
    with ExitStack() as stack:
        fleet = WatchedFleet(
            tmp_path_factory.mktemp("fleet"), {"run": Fleet(script=SCRIPTS["deadlock"], gpus=2)}, 1.7e9, stack
        )
        asyncio.run(fleet.play(900))
        daemon = next(registry for job, _, registry in fleet.targets() if job == "runwatch")
        yield {"daemon": daemon, "agent": registry_of(full_agent(tmp_path_factory.mktemp("agent")))}


both = pytest.mark.parametrize("who", ["daemon", "agent"])


@both
def test_promtool_finds_nothing_to_complain_of(registries, who):
    encode, kind = choose_encoder("text/plain")
    assert "0.0.4" in kind
    done = subprocess.run(
        [tool("promtool", "prometheus"), "check", "metrics"],
        input=encode(registries[who]), capture_output=True, timeout=30,
    )  # fmt: skip
    assert (done.returncode, done.stderr.decode()) == (0, "")


@both
def test_openmetrics_is_given_to_who_asks_and_a_strict_parser_reads_all_of_it(registries, who):
    encode, kind = choose_encoder(OPENMETRICS)
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    text = encode(registries[who]).decode()
    assert text.endswith("# EOF\n")
    read = {family.name for family in text_string_to_metric_families(text)}
    assert read == {family.name for family in registries[who].collect()}


@both
def test_every_help_is_a_sentence_and_says_more_than_the_name(registries, who):
    for family in registries[who].collect():
        help_text = family.documentation
        assert re.match(r"[A-Z0-9].{10,}\.$", help_text), f"{family.name}: {help_text!r}"


@both
def test_names_have_base_units_at_their_end(registries, who):
    for family in registries[who].collect():
        if family.name.startswith("process_"):
            continue
        assert family.name.startswith("runwatch_")
        assert not FOREIGN_UNIT.search(family.name), family.name
        unit = re.search(rf"_{UNITS}(_|$)", family.name)
        assert unit is None or SUFFIX.search(family.name), f"{family.name}: the unit goes last"


@both
def test_no_label_grows_without_end(registries, who):
    labels = {name for family in registries[who].collect() for sample in family.samples for name in sample.labels}
    assert not labels & UNBOUNDED


@both
def test_every_metric_has_a_sample_here(registries, who):
    """So that the tests of this file and the table of the documents have seen all of them."""
    assert [family.name for family in registries[who].collect() if not family.samples] == []


def test_counters_are_there_at_0_before_anything_was_counted(tmp_path):
    with ExitStack() as stack:
        fleet = WatchedFleet(tmp_path, {"run": Fleet(script=SCRIPTS["deadlock"], gpus=1)}, 1.7e9, stack)
        families = [family for _, _, registry in fleet.targets() for family in registry.collect()]
    counters = {f.name: f.samples for f in families if f.type == "counter" and not f.name.startswith("process_")}
    of_parts = ("runwatch_gpu_", "runwatch_host_link_downs", "runwatch_agent_push")  # there where the part is there
    assert len(counters) > 15
    for name in (name for name in counters if not name.startswith(of_parts)):
        assert counters[name], f"{name} has no sample before its first event"
        assert all(sample.value == 0 for sample in counters[name]), name
