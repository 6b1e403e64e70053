"""`runwatch suspects` against the daemon's real HTTP app, and the order it puts nodes in."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
import requests

from detectors.frame import Strike
from tests.support.runs import ScriptedRun
from tests.watcher.daemon.test_daemon_http import Client
from watcher.cli.main import main
from watcher.cli.suspects import exclude_option, rank
from watcher.daemon.http import build_app

DAY = 86_400.0
NOW = 1_700_000_000.0


def strike(node: str, days_ago: float, **more) -> Strike:
    return Strike(at=NOW - days_ago * DAY, node=node, kind=more.pop("kind", "ecc_uncorrectable"), **more)


def ranked(*strikes: Strike):
    return rank([asdict(one) for one in strikes], NOW)


@pytest.fixture
def ask(monkeypatch):
    """Runs the command against an app over a run whose ledger holds these strikes."""

    def asked(strikes: list[Strike], *options: str) -> int:
        run = ScriptedRun(nodes=("n1",), gpus=1, only=("crash",))
        for one in strikes:
            run.fold.ledger.add(one)

        class Watched:
            fold = run.fold

        class Daemon:
            runs = (Watched(),)
            desk = None

            class clock:
                @staticmethod
                def time() -> float:
                    return NOW

        monkeypatch.setattr("watcher.daemon.http.ack_routes", lambda desk: [])
        client = Client(build_app(Daemon(), None, list), token=None)

        def request(method, url, **ignored):
            answer = requests.Response()
            answer.status_code, text = client.ask(url.removeprefix("http://127.0.0.1"), method)
            answer._content = text.encode()
            answer.headers["Content-Type"] = "application/json"
            return answer

        monkeypatch.setattr(requests, "request", request)
        return main(["suspects", "--url", "http://127.0.0.1", *options])

    return asked


def test_the_node_with_most_strikes_comes_first_and_old_ones_weigh_less():
    found = ranked(strike("old", 60), strike("old", 61), strike("old", 62), strike("new", 1), strike("twice", 1.0),
                   strike("twice", 2.0))  # fmt: skip
    assert [one.node for one in found] == ["twice", "new", "old"]
    assert found[0].recent == 2
    assert found[2].recent == 0


def test_only_nodes_struck_twice_within_a_week_are_left_out():
    found = ranked(
        strike("n2", 1), strike("n2", 6.9), strike("n1", 1), strike("n1", 2), strike("n3", 1), strike("n3", 8),
        strike("n4", 1), strike("n4", 2, counted=False),
    )  # fmt: skip
    assert exclude_option(found) == "--exclude=n1,n2"
    assert exclude_option(ranked(strike("n1", 1))) == ""


def test_it_tells_each_strike_with_its_gpu(ask, capsys):
    assert (
        ask([strike("n7", 1, gpu_uuid="GPU-1", gpu_index=3, serial="165", detail="4 new errors"), strike("n7", 3)]) == 0
    )
    said = capsys.readouterr().out
    assert said.startswith("n7  1.6")
    assert "leave it out" in said
    assert "1.0 d ago  ecc_uncorrectable  gpu 3  GPU-1  165" in said


def test_slurm_is_one_line_to_paste_and_nothing_where_no_node_is_bad(ask, capsys):
    assert ask([strike("n7", 1), strike("n7", 3)], "--slurm") == 0
    assert capsys.readouterr().out == "--exclude=n7\n"
    assert ask([], "--slurm") == 0
    assert capsys.readouterr().out == ""


def test_json_is_one_object_a_node_and_an_empty_ledger_says_so(ask, capsys):
    assert ask([strike("n7", 1), strike("n8", 3)], "--json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["node"] for row in rows] == ["n7", "n8"]
    assert ask([]) == 0
    assert "no strike" in capsys.readouterr().out


def test_without_a_daemon_it_is_one_line_and_exit_1(capsys):
    assert main(["suspects", "--url", "http://127.0.0.1:9"]) == 1
    assert "no daemon answers" in capsys.readouterr().err
