"""Agents that are asked over TLS, on real sockets: who is trusted, what each failure says, who speaks for whom."""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path
from typing import Any

import pytest
import trustme

from alerts.secret import Secret
from watcher.agent.app import Agent
from watcher.agent.http import build_app
from watcher.agent.server import serving
from watcher.bind import bind
from watcher.clock import FakeClock, SystemClock
from watcher.config.agent import AgentConfig
from watcher.config.listen import Listen
from watcher.daemon.answer import Answer
from watcher.daemon.collect import Collector
from watcher.simulate.fleet import Fleet
from watcher.simulate.gpus import SimulatedGpus
from watcher.simulate.script import SCRIPTS
from watcher.tls import ClientTls, ServerTls, TlsError
from watcher.tokens import NodeTokens, node_token

FLEET = Fleet(script=SCRIPTS["deadlock"])
NODE, OTHER = FLEET.nodes[:2]
MASTER = Secret("a-master-secret-of-this-site-0123456789")
LONG_AGO = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture
def authority(tmp_path):
    made = trustme.CA()
    made.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return made


def certificate(authority: trustme.CA, folder: Path, name: str = "127.0.0.1", **more: Any) -> ServerTls:
    file = folder / "x.pem"
    authority.issue_cert(name, **more).private_key_and_cert_chain_pem.write_to_path(str(file))
    return ServerTls(file, file)


def ask(tls: ServerTls | None, trust: ClientTls | None, *, asked: str = NODE, accepts: str = NODE) -> Answer:
    """The agent of NODE, which accepts the token of `accepts`, is asked as if it were the one of `asked`."""

    async def play() -> Answer:
        clock = FakeClock()
        config = AgentConfig.model_validate({"agent": {"node": NODE}}).agent
        agent = Agent(config, clock, SimulatedGpus(FLEET, NODE, clock, clock.time() - 100), None)
        await agent.cycle()
        sock = bind(Listen("127.0.0.1", 0))
        scheme = "https" if trust is not None else "http"
        url = f"{scheme}://127.0.0.1:{sock.getsockname()[1]}"
        app = build_app(agent, Secret(node_token(MASTER.reveal(), accepts)))
        async with (
            serving(app, sock, tls.context if tls is not None else None),
            Collector({asked: url}, SystemClock(), NodeTokens(master=MASTER), 5.0, trust) as collector,
        ):
            (answer,) = await collector.ask_all()
        return answer

    return asyncio.run(play())


def test_over_tls_it_is_asked_like_any_other(authority, tmp_path):
    answer = ask(certificate(authority, tmp_path), ClientTls(tmp_path / "ca.pem"))
    assert answer.error is None
    assert len(answer.snapshot.gpus) == 8


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"name": "elsewhere.example"}, "is for another name"),
        ({"not_before": LONG_AGO, "not_after": LONG_AGO + datetime.timedelta(days=9)}, "has expired: renew it"),
    ],
)
def test_a_certificate_that_is_not_good_says_what_to_do(authority, tmp_path, more, said):
    answer = ask(certificate(authority, tmp_path, **more), ClientTls(tmp_path / "ca.pem"))
    assert answer.snapshot is None
    assert said in answer.error


def test_one_that_nobody_vouches_for_names_the_key_of_the_config(authority, tmp_path):
    answer = ask(certificate(trustme.CA(), tmp_path), ClientTls(tmp_path / "ca.pem"))
    assert "is not trusted" in answer.error
    assert "daemon.agents.ca_file" in answer.error


def test_tls_on_one_side_only_says_so(authority, tmp_path):
    assert "does not speak TLS" in ask(None, ClientTls(tmp_path / "ca.pem")).error
    assert "does the agent speak TLS?" in ask(certificate(authority, tmp_path), None).error


def test_another_authority_is_trusted_without_a_restart(authority, tmp_path):
    trust = ClientTls(tmp_path / "ca.pem")
    after = trustme.CA()
    tls = certificate(after, tmp_path)
    assert "is not trusted" in ask(tls, trust).error
    (tmp_path / "ca.pem").write_text("half written")
    assert "is not trusted" in ask(tls, trust).error
    after.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    assert ask(tls, trust).error is None


def test_an_agent_at_the_address_of_another_node_is_refused_in_words(authority, tmp_path):
    answer = ask(certificate(authority, tmp_path), ClientTls(tmp_path / "ca.pem"), asked=OTHER, accepts=OTHER)
    assert answer.snapshot is None
    assert f"says that it is node '{NODE}', not '{OTHER}'" in answer.error


def test_the_token_of_one_node_opens_no_other(authority, tmp_path):
    answer = ask(certificate(authority, tmp_path), ClientTls(tmp_path / "ca.pem"), accepts=OTHER)
    assert "refuses the token" in answer.error


@pytest.mark.parametrize(
    "ends", [LONG_AGO + datetime.timedelta(days=9), datetime.datetime(2049, 5, 4, tzinfo=datetime.UTC)]
)
def test_when_a_certificate_ends_is_known_also_when_it_has(authority, tmp_path, ends):
    tls = certificate(authority, tmp_path, not_before=LONG_AGO, not_after=ends)
    assert tls.expires_at == ends.timestamp()


def test_files_that_are_no_certificates_are_named(authority, tmp_path):
    bad = tmp_path / "bad.pem"
    bad.write_text("no certificate")
    for make in (lambda: ClientTls(bad), lambda: ServerTls(bad, bad), lambda: ClientTls(tmp_path / "none.pem")):
        with pytest.raises(TlsError, match=str(tmp_path)):
            make()
