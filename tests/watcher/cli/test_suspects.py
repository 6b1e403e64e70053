"""The strike ledger as a person reads it, and as Slurm takes it."""

from __future__ import annotations

import pytest

from watcher.cli.main import main
from watcher.cli.suspects import account, excluded

NOW = 1_700_000_000.0
DAY = 86_400.0


def strike(node: str, days: float, counted: bool = True, **more):
    return {"node": node, "at": NOW - days * DAY, "kind": "xid_48", "counted": counted, "gpu_uuid": None, **more}


@pytest.mark.parametrize(
    ("strikes", "nodes"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([strike("a", 1)], [], id="one is none"),
        pytest.param([strike("a", 1), strike("a", 2)], ["a"], id="two in a week"),
        pytest.param([strike("a", 1), strike("a", 8)], [], id="one is older"),
        pytest.param([strike("a", 1), strike("a", 2, counted=False)], [], id="one does not count"),
        pytest.param([strike(n, d) for n in "ba" for d in (1, 2)], ["a", "b"], id="two nodes, sorted"),
    ],
)
def test_what_slurm_shall_leave_out(strikes, nodes):
    assert excluded(strikes, NOW) == nodes


def test_old_strikes_weigh_less():
    lines = account([strike("old", 28), strike("old", 29), strike("new", 1, gpu_uuid="GPU-1", gpu_index=3)], NOW)
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == ["new", "old"]
    assert "gpu 3 GPU-1" in lines[1]


def test_without_a_daemon_it_is_one_line(capsys):
    assert main(["suspects", "--url", "http://127.0.0.1:9"]) == 1
    assert "no daemon answers" in capsys.readouterr().err
