"""Real processes over TLS: one agent is asked, another sends by itself; commands speak to both, strangers do not."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from watcher.tokens import node_token

DEADLINE_SECONDS = 40.0
MASTER = "the-master-secret-of-this-site-0123456789"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(folder / "ca.pem"))
        made = authority.issue_cert("127.0.0.1")
        made.private_key_pem.write_to_path(str(folder / "key.pem"))
        made.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
        (folder / "master").write_text(f"{MASTER}\n")
        (folder / "api").write_text("api-token\n")
        self.tls = {"cert_file": str(folder / "cert.pem"), "key_file": str(folder / "key.pem")}

    def file(self, name: str, config: Any) -> Path:
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps(config))
        return path

    def start(self, what: str, config: Path) -> None:
        argv = [sys.executable, "-m", "watcher", what, "--config", str(config)]
        with config.with_suffix(".err").open("wb") as said:
            self.started.append(subprocess.Popen(argv, stdout=said, stderr=said, env=dict(os.environ)))

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "watcher", *argv], capture_output=True, text=True, timeout=60, check=False
        )

    def until(self, done: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + DEADLINE_SECONDS
        while not done():
            assert time.monotonic() < end, what + "".join(p.read_text() for p in self.folder.glob("*.err"))
            time.sleep(0.2)

    def stop(self) -> None:
        for process in self.started:
            process.terminate()
        for process in self.started:
            process.wait(20)


@pytest.fixture
def site(tmp_path):
    one = Site(tmp_path)
    yield one
    one.stop()


def test_a_site_with_tls_and_a_token_for_each_node(site, tmp_path):
    agent_port, daemon_port = free_port(), free_port()
    for node in ("asked", "sends"):
        (tmp_path / f"{node}.token").write_text(node_token(MASTER, node))
    asked = {"node": "asked", "listen": f"127.0.0.1:{agent_port}", "token_file": str(tmp_path / "asked.token"),
             "tls": site.tls, "interval_seconds": 1}  # fmt: skip
    push = {"url": f"https://127.0.0.1:{daemon_port}", "token_file": str(tmp_path / "sends.token"),
            "ca_file": str(tmp_path / "ca.pem")}  # fmt: skip
    sends = {"node": "sends", "listen": "127.0.0.1:0", "interval_seconds": 1, "push": push}
    daemon = {
        "daemon": {
            "listen": f"127.0.0.1:{daemon_port}", "token_file": str(tmp_path / "api"), "tls": site.tls,
            "database": str(tmp_path / "x.db"), "interval_seconds": 1,
            "agents": {"addresses": {"asked": f"127.0.0.1:{agent_port}"}, "push": ["sends"],
                       "master_file": str(tmp_path / "master"), "ca_file": str(tmp_path / "ca.pem")},
        },
        "runs": [{"name": "r1", "nodes": ["asked", "sends"]}],
    }  # fmt: skip
    config = site.file("daemon", daemon)
    agent = site.file("asked", {"agent": asked})
    site.start("agent", agent)
    site.start("agent", site.file("sends", {"agent": sends}))
    site.start("daemon", config)

    def both() -> bool:
        done = site.run("status", "--config", str(config), "--json")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return bool(lines) and lines[0]["watched"]["nodes_answering"] == 2

    site.until(both, "both nodes answer")
    looked = site.run("doctor", "--config", str(config), "--no-page", "--json")
    agents = [line["text"] for line in map(json.loads, looked.stdout.splitlines()) if line["topic"] == "agents"]
    assert agents[0].startswith("2 of 2 nodes answer"), looked.stdout
    told = site.run("agent", "--config", str(agent), "--release")
    assert (told.returncode, "let go" in told.stdout) == (0, True), told.stderr
    url, api = f"https://127.0.0.1:{daemon_port}", str(tmp_path / "api")
    given = site.run("status", "--url", url, "--ca-file", str(tmp_path / "ca.pem"), "--token-file", api)
    assert "2 of 2 nodes" in given.stdout, given.stderr
    strange = site.run("status", "--url", url, "--token-file", api)
    assert "is not trusted" in strange.stderr
    assert "--ca-file" in strange.stderr
