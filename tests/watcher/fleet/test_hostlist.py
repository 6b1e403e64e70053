"""Node lists as people write them, and groups only where they are meant."""

from __future__ import annotations

import asyncio

import pytest
from ClusterShell.NodeSet import set_std_group_resolver, set_std_group_resolver_config
from pydantic import ValidationError

from watcher.clock import FakeClock
from watcher.config.daemon import DaemonConfig
from watcher.fleet._api import FleetError
from watcher.fleet._hostlist import expand
from watcher.fleet.static import StaticMatch, StaticSettings, StaticSource


def test_a_hostlist_is_expanded_in_order():
    assert expand("n[08-10]") == ("n08", "n09", "n10")
    assert expand("n[1-4]!n[2-3]") == ("n1", "n4")


@pytest.mark.parametrize("text", ["@all", "n[1-2],@gpu", "@source:group"])
def test_a_group_is_not_asked_unless_that_is_meant(text):
    with pytest.raises(ValidationError, match="names a group of this host's ClusterShell"):
        DaemonConfig.model_validate({"runs": [{"name": "a", "nodes": text}]})


def test_a_list_that_would_fill_the_memory_is_refused():
    with pytest.raises(ValueError, match="more than 50000 nodes"):
        expand("n[1-60000]")


@pytest.fixture
def groups(tmp_path):
    """Node groups of this host's ClusterShell."""
    (tmp_path / "groups.conf").write_text(f"[Main]\ndefault: ours\n[ours]\nmap: cat {tmp_path}/$GROUP\n")
    (tmp_path / "gpu").write_text("n[1-3]")
    set_std_group_resolver_config(str(tmp_path / "groups.conf"))
    yield tmp_path
    set_std_group_resolver(None)


def test_groups_that_are_meant_are_asked_anew_at_each_poll(groups):
    source = StaticSource(StaticSettings(), [StaticMatch(nodes="@gpu", groups=True)], FakeClock())
    (job,) = asyncio.run(source.jobs())
    assert [place.node for place in job.places] == ["n1", "n2", "n3"]


def test_a_group_that_is_not_known_is_an_error_and_never_no_node(groups):
    source = StaticSource(StaticSettings(), [StaticMatch(nodes="@no-such", groups=True)], FakeClock())
    with pytest.raises(FleetError, match="no-such"):
        asyncio.run(source.jobs())


def test_a_static_list_is_a_list_of_nodes_and_no_scheduler():
    (job,) = asyncio.run(StaticSource(StaticSettings(), [StaticMatch(nodes="n[1-2]")], FakeClock()).jobs())
    assert (job.state, [place.node for place in job.places]) == ("listed", ["n1", "n2"])
