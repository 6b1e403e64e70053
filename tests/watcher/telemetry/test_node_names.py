"""Which node a label means: with a port, with a domain, in other letters; an address is only itself."""

from __future__ import annotations

import pytest

from watcher.telemetry._fleet import NodeNames


@pytest.mark.parametrize(
    ("nodes", "label", "node"),
    [
        (["n1", "n2"], "n1:9400", "n1"),
        (["n1"], "N1.cluster.example", "n1"),
        (["n1.cluster"], "n1:9400", "n1.cluster"),
        (["n1"], "n10:9400", None),
        (["10.0.0.1"], "10.0.0.1:9400", "10.0.0.1"),
        (["10.0.0.1"], "10.0.0.9:9400", None),
        (["10.0.0.1", "10.0.0.2"], "10.0.0.2", "10.0.0.2"),
        (["fe80::1"], "fe80::2", None),
    ],
)
def test_a_label_means_one_node_or_none(nodes, label, node):
    assert NodeNames(nodes).of(label) == node


def test_the_matcher_names_whole_addresses():
    assert "10\\\\.0\\\\.0\\\\.1" in NodeNames(["10.0.0.1"]).matcher("instance")
