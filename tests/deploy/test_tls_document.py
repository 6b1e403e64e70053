"""deploy/tls.md does what it says: its commands make certificates that are trusted, its examples load."""

from __future__ import annotations

import re
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.support.real_server import tool
from watcher.cli.main import main
from watcher.config.agent import AgentConfig
from watcher.config.daemon import DaemonConfig
from watcher.config.load import load
from watcher.tls import ClientTls, ServerTls
from watcher.tokens import node_token

TEXT = (Path(__file__).resolve().parents[2] / "deploy/tls.md").read_text(encoding="utf-8")


def shake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """A handshake in memory. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    ours = client.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(4):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ours.version() is not None


def test_the_commands_make_what_the_files_name(tmp_path):
    tool("openssl", "openssl")
    (commands,) = re.findall(r"^## TLS.*?```\n(.*?)```", TEXT, re.DOTALL | re.MULTILINE)
    subprocess.run(["bash", "-euc", commands], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    server = ServerTls(tmp_path / "gpu-node-01.pem", tmp_path / "gpu-node-01.key").context
    client = ClientTls(tmp_path / "ca.pem").context()
    client.verify_flags |= ssl.VERIFY_X509_STRICT  # as newer Pythons do by themselves
    shake(server, client, "gpu-node-01")
    with pytest.raises(ssl.SSLCertVerificationError, match="gpu-node-02"):
        shake(server, client, "gpu-node-02")


def test_the_examples_load(tmp_path):
    agent, daemon = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    for text, model in ((agent, AgentConfig), (daemon, DaemonConfig)):
        (tmp_path / "x.yaml").write_text(text)
        load(tmp_path / "x.yaml", model)


def test_each_node_gets_a_file_with_a_token_of_its_own(tmp_path, capsys):
    master = tmp_path / "master"
    master.write_text("a-master-secret-of-this-site-0123456789\n")
    folder = tmp_path / "tokens"
    for _ in range(2):  # again, as when nodes are added
        assert main(["node-token", "gpu-node-[01-03]", "--master-file", str(master), "--directory", str(folder)]) == 0
    for node in ("gpu-node-01", "gpu-node-02", "gpu-node-03"):
        file = folder / f"{node}.token"
        assert file.read_text().strip() == node_token(master.read_text().strip(), node)
        assert file.stat().st_mode & 0o077 == 0
    assert main(["node-token", "n1", "--master-file", str(master)]) == 0
    assert capsys.readouterr().out == node_token(master.read_text().strip(), "n1") + "\n"
    master.write_text("guessed\n")
    assert main(["node-token", "n1", "--master-file", str(master)]) == 2
    assert "shorter than 32" in capsys.readouterr().err
