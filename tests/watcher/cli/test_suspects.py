"""The strike ledger as a person reads it, and as Slurm takes it."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from detectors.frame import Strike
from watcher.cli.main import main
from watcher.cli.suspects import account, excluded
from watcher.clock import SystemClock
from watcher.daemon.ledger import Ledger
from watcher.daemon.store import Store

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


def test_without_a_daemon_the_database_tells_it(tmp_path, capsys):
    path = tmp_path / "runwatch.db"
    ledger = Ledger()
    now = SystemClock().time()
    for days in (1, 2):
        ledger.add(Strike(at=now - days * DAY, node="n7", kind="xid_48", gpu_uuid="GPU-1", gpu_index=3))
    with closing(Store(path)) as store:
        store.put_state("ledger", json.dumps(ledger.dump()).encode())
        assert main(["suspects", "--database", str(path), "--slurm"]) == 0  # while a daemon has it open
    assert capsys.readouterr().out == "--exclude=n7\n"
    assert main(["suspects", "--database", str(path)]) == 0
    assert capsys.readouterr().out.count("xid_48 gpu 3 GPU-1") == 2


@pytest.mark.parametrize("content", [None, b"", b"no database"], ids=["missing", "empty", "another file"])
def test_a_file_that_is_no_database_is_left_alone_and_told_in_one_line(tmp_path, capsys, content):
    path = tmp_path / "other.db"
    if content is not None:
        path.write_bytes(content)
    assert main(["suspects", "--database", str(path)]) == 1
    assert str(path) in capsys.readouterr().err
    assert (path.read_bytes() if path.exists() else None) == content
