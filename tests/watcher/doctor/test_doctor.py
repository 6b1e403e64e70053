"""`runwatch doctor` on a site of simulated agents: what is well is said, what is not is named with what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from detectors.frame import Strike
from tests.support.live_agents import live_agents
from watcher.cli.main import main
from watcher.daemon.ledger import Ledger
from watcher.daemon.store import Store
from watcher.doctor.collectives import timeouts_in
from watcher.doctor.saves import optimum_seconds
from watcher.simulate.fleet import Fleet
from watcher.simulate.script import SCRIPTS

FLEET = Fleet(script=SCRIPTS["deadlock"])


class Site:
    """A config file, and what the doctor says of it."""

    def __init__(self, folder: Path, addresses: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
        self.file, self._capsys = folder / "runwatch.yaml", capsys
        self.database = folder / "runwatch.db"
        self.config = {
            "daemon": {
                "listen": "127.0.0.1:9",
                "database": str(self.database),
                "agents": {"addresses": dict(addresses), "timeout_seconds": 2},
            },
            "runs": [{"name": "r1", "nodes": list(FLEET.nodes)}],
            "channels": {"file": {"command": {"argv": ["/bin/cat"]}}},
        }

    def ask(self, *more: str) -> tuple[int, list[dict[str, str]]]:
        self.file.write_text(yaml.safe_dump(self.config))
        code = main(["doctor", "--config", str(self.file), "--json", *more])
        return code, [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]

    def lines(self, topic: str, *more: str) -> list[tuple[str, str, str]]:
        return [(x["level"], x["text"], x["advice"]) for x in self.ask(*more)[1] if x["topic"] == topic]


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "train.log"
    path.write_text("".join(f"step: {n} | loss: 2.{n} | epoch 1\n" for n in range(10, 30)))
    return path


@pytest.fixture
def site(tmp_path, log, capsys):
    with live_agents(FLEET, log) as addresses:
        yield Site(tmp_path, addresses, capsys)


def test_a_site_that_is_well_gets_exit_0_and_every_topic_a_line(site):
    code, lines = site.ask()
    assert code == 0, [line for line in lines if line["level"] == "fail"]
    topics = {line["topic"] for line in lines}
    assert {
        "agents",
        "clocks",
        "gpus",
        "logs",
        "limits",
        "saves",
        "strikes",
        "pages",
        "dead man",
        "collectives",
    } <= topics
    assert ("ok", f"{len(FLEET.nodes)} of {len(FLEET.nodes)} nodes answer, version 0.1.0", "") in site.lines("agents")
    assert ("ok", "file: a test page was sent and resolved", "") in site.lines("pages")


def test_a_silent_node_is_named_with_the_reason(site):
    site.config["runs"][0]["nodes"].append("gone")
    site.config["daemon"]["agents"]["addresses"]["gone"] = "127.0.0.1:9"
    told = site.lines("agents")
    assert told[0][0] == "warn"
    assert any("gone: cannot connect" in text for _, text, _ in told)


def test_many_silent_nodes_with_addresses_of_their_own_are_one_line(site):
    gone = [f"gone{n}" for n in range(1, 21)]
    site.config["runs"][0]["nodes"] = [*FLEET.nodes, *gone]
    addresses = {name: f"127.0.0.{n}:9" for n, name in enumerate(gone, 2)}
    site.config["daemon"]["agents"]["addresses"] |= addresses
    (line,) = [text for level, text, _ in site.lines("agents") if "gone" in text]
    assert line.startswith("gone1, gone10, gone11, gone12 and 16 more: cannot connect to its address")


def test_a_run_without_a_log_or_whose_log_is_not_understood_is_told(site, tmp_path):
    odd = tmp_path / "odd.log"
    odd.write_text("hello\nworld\n")
    site.config["runs"].append({"name": "r2", "nodes": [FLEET.nodes[1]]})
    site.config["runs"].append(
        {"name": "r3", "nodes": [FLEET.nodes[1]], "logs": [{"path": str(odd), "tail": "daemon"}]}
    )
    code, lines = site.ask()
    told = {line["about"]: line for line in lines if line["topic"] == "logs"}
    assert code == 1
    assert "only power can be watched" in told["r2"]["text"]
    assert "no step that could be read" in told["r3"]["text"]
    assert "patterns" in told["r3"]["advice"]


def test_what_a_log_holds_is_told_with_its_phases_and_the_jobs_own_time_out(site, tmp_path):
    log = tmp_path / "mega.log"
    record = " iteration {:8d}/     500 | elapsed time per iteration (ms): 900.0 | lm loss: 2.1E+00 |\n"
    log.write_text(
        "  distributed_timeout_minutes ..................... 30\n"
        + "".join(record.format(n) for n in range(1, 20))
        + "saving checkpoint at iteration 19 to /ckpt\n"
    )
    site.config["runs"][0]["logs"] = [{"path": str(log), "tail": "daemon"}]
    (told,) = [text for _, text, _ in site.lines("logs") if "mega.log" in text]
    assert "megatron, 18 steps" in told  # the last one may still get more of its line
    assert "with loss" in told
    ((level, told, _),) = site.lines("collectives")
    assert level == "ok"
    assert told.startswith("the job gives up after 30 m 0 s, we page after ")
    assert any("checkpoint" in text for level, text, _ in site.lines("phases") if level == "ok")


def test_a_node_that_was_struck_twice_fails_with_the_exclude_line(site):
    store = Store(site.database, 1_700_000_000.0)
    from watcher.clock import SystemClock

    now = SystemClock().time()
    ledger = Ledger(
        Strike(at=now - 3600 * n, kind="ecc_uncorrectable", node=FLEET.nodes[1], gpu_uuid=f"GPU-{n}", counted=True)
        for n in (1, 30)
    )
    store.put_state("ledger", json.dumps(ledger.dump()).encode(), now)
    store.close()
    ((level, text, advice),) = site.lines("strikes")
    assert (level, advice) == ("fail", f"leave out the worst: --exclude={FLEET.nodes[1]}")
    assert f"{FLEET.nodes[1]} (2)" in text


def test_a_channel_that_does_not_work_fails_and_no_page_sends_none(site, tmp_path):
    sent = tmp_path / "sent"
    site.config["channels"] = {
        "broken": {"command": {"argv": ["/nowhere/at/all"]}},
        "good": {"command": {"argv": ["/bin/sh", "-c", f"cat >> {sent}"]}},
    }
    told = site.lines("pages")
    assert [level for level, _, _ in told] == ["fail", "ok"]
    size = sent.stat().st_size
    assert site.lines("pages", "--no-page") == [("note", "no test page was sent, as you asked", "")]
    assert sent.stat().st_size == size


def test_the_screen_is_for_people(site, capsys):
    site.file.write_text(yaml.safe_dump(site.config))
    assert main(["doctor", "--config", str(site.file), "--no-page"]) == 0
    screen = capsys.readouterr().out
    assert "r1\n" in screen
    assert "nodes answer" in screen
    assert len(screen.splitlines()) < 60


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("  distributed_timeout_minutes ...... 10", [600.0]),
        ('{"ddp_timeout": 1800, "x": 1}', [1800.0]),
        ("train_timeout_seconds = 100", [100.0]),
        ("WorkNCCL(SeqNum=5, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600112 ms", [600.0]),
        ("nothing of the kind, timeout 5", []),
        ("ddp_timeout=" + "9" * 100_000, []),
    ],
)
def test_time_outs_of_collectives_are_read_where_programs_print_them(line, seconds):
    found = timeouts_in(line)
    assert found == seconds or (not seconds and all(value > 1e9 for value in found))


def test_the_optimum_follows_young_and_daly():
    assert optimum_seconds(290.0, 16_384) == pytest.approx(42 * 60, rel=0.05)


def test_nodes_that_a_source_tells_are_looked_at_under_the_name_of_each_run(site, tmp_path):
    targets = tmp_path / "targets.yml"
    groups = [{"targets": [f"{node}:9100" for node in FLEET.nodes], "labels": {"job": "tr11"}}]
    targets.write_text(yaml.safe_dump(groups))
    site.config["runs"] = [{"name": "x-{run}", "match": {"file_sd": {"files": [str(targets)], "run_label": "job"}}}]
    code, lines = site.ask()
    assert code == 0, [line for line in lines if line["level"] == "fail"]
    assert {line["about"] for line in lines} == {"x-tr11", "this watchdog"}
    assert ("ok", f"file_sd lists {len(FLEET.nodes)} nodes", "") in site.lines("fleet")
    assert ("ok", f"{len(FLEET.nodes)} of {len(FLEET.nodes)} nodes answer, version 0.1.0", "") in site.lines("agents")


def test_a_run_that_nothing_matches_now_is_no_failure_and_a_source_that_is_silent_is(site, tmp_path):
    targets = tmp_path / "targets.yml"
    targets.write_text("[]")
    site.config["runs"] = [{"name": "{run}", "match": {"file_sd": {"files": [str(targets)], "run_label": "job"}}}]
    assert site.ask()[0] == 0
    assert site.lines("fleet") == [("note", "file_sd knows nothing that matches now", "is match: what you mean?")]
    targets.unlink()
    assert site.ask()[0] == 1
    ((level, text, _),) = site.lines("fleet")
    assert (level, text) == ("fail", f"{targets} cannot be read: No such file or directory")


def test_a_job_that_waits_for_a_person_is_told_with_its_reason(site, tmp_path):
    squeue = tmp_path / "squeue"
    jobs = [
        {"job_id": 7, "name": "tr11", "user_name": "me", "job_state": ["PENDING"], "state_reason": "JobHeldUser",
         "priority": {"set": True, "infinite": False, "number": 0}},
    ]  # fmt: skip
    squeue.write_text(f"#!/bin/sh\necho '{json.dumps({'jobs': jobs})}'\n")
    squeue.chmod(0o755)
    site.config["fleet"] = {"slurm": {"squeue": str(squeue)}}
    site.config["runs"] = [{"name": "tr11", "match": {"slurm_job_name": "tr11"}}]
    assert site.lines("fleet") == [("warn", "slurm: job 7 is pending: JobHeldUser", "")]
