"""Agents that send by themselves, over real sockets and TLS: nothing lost or doubled, a node speaks for itself only."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from alerts.secret import Secret
from watcher.agent.app import Agent
from watcher.agent.push import Pusher, Reply
from watcher.bind import bind
from watcher.clock import FakeClock
from watcher.config.agent import AgentConfig, PushSection
from watcher.config.listen import Listen
from watcher.daemon import pushed
from watcher.daemon.answer import Answer
from watcher.daemon.pushed import PATH, Pushed
from watcher.daemon.serve import QuietServer
from watcher.events import LogEvent
from watcher.simulate.fleet import Fleet
from watcher.simulate.gpus import SimulatedGpus
from watcher.simulate.script import SCRIPTS
from watcher.snapshot import LogLine
from watcher.tls import ServerTls
from watcher.tokens import NodeTokens, node_token

FLEET = Fleet(script=SCRIPTS["deadlock"])
NODE = FLEET.nodes[0]
MASTER = "master-secret-of-the-site"


@pytest.fixture
def authority(tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("127.0.0.1", "localhost").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "x.pem"))
    return authority


class Site:
    """A daemon's inbox behind a listener, and an agent whose ring is filled by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, FakeClock()
        self.inbox = self.daemon()
        (folder / "token").write_text(node_token(MASTER, NODE))
        config = AgentConfig.model_validate({"agent": {"node": NODE}}).agent
        self.agent = Agent(config, self.clock, SimulatedGpus(FLEET, NODE, self.clock, self.clock.time() - 100), None)
        self.port = 0
        self.answers: Sequence[Answer] = ()

    def daemon(self) -> Pushed:
        return Pushed(lambda: FLEET.nodes, self.clock, NodeTokens(master=Secret(lambda: MASTER)))

    def say(self, step: int) -> None:
        def line(seq: int, age: float) -> LogLine:
            event = LogEvent(event="step", step=step)
            return LogLine(seq=seq, age_seconds=age, path="/l", file="f", offset=step, event=event)

        self.agent.ring.add(self.clock.monotonic(), line)

    def section(self, **more: Any) -> PushSection:
        given = {"url": f"https://127.0.0.1:{self.port}", "token_file": str(self.folder / "token"),
                 "ca_file": str(self.folder / "ca.pem"), "timeout_seconds": 5}  # fmt: skip
        return PushSection.model_validate({**given, **more})

    async def cycle(self) -> list[int]:
        """The steps that the daemon gets to see in one cycle."""
        self.answers = await self.inbox.ask_all()
        events = [event for answer in self.answers if answer.snapshot is not None for event in answer.snapshot.events]
        return [event.event.step for event in events if isinstance(event, LogLine) and event.event.step is not None]

    @asynccontextmanager
    async def listening(self, tls: bool = True) -> AsyncIterator[None]:
        async def receive(request: Any) -> Any:
            return await self.inbox.receive(request)

        sock = bind(Listen("127.0.0.1", self.port))
        self.port = sock.getsockname()[1]
        config = uvicorn.Config(
            Starlette(routes=[Route(PATH, receive, methods=["POST"])]), lifespan="off", log_config=None
        )
        config.load()
        if tls:
            config.ssl = ServerTls(self.folder / "x.pem", self.folder / "x.pem").context
        server = QuietServer(config)
        serving = asyncio.create_task(server.serve(sockets=[sock]))
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            yield
        finally:
            server.should_exit = True
            await serving


@pytest.fixture
def site(tmp_path, authority):
    return Site(tmp_path)


def test_what_is_sent_is_answered_as_if_it_had_been_asked_for(site):
    async def play() -> None:
        async with site.listening():
            await site.agent.cycle()
            pusher = Pusher(site.agent, site.section())
            site.say(1)
            assert await pusher.push() == site.agent.config.interval_seconds
            assert pusher.error is None
            assert await site.cycle() == [1]
            (answer,) = site.answers
            assert (answer.node, len(answer.snapshot.gpus)) == (NODE, 8)
            assert await site.cycle() == []
            assert site.answers == []
            site.say(2)
            await pusher.push()
            assert await site.cycle() == [2]

    asyncio.run(play())


def test_several_between_two_cycles_are_one_answer_with_all_events_at_their_age(site):
    async def play() -> None:
        async with site.listening():
            await site.agent.cycle()
            pusher = Pusher(site.agent, site.section())
            for step in range(100):
                site.say(step)
                await pusher.push()
                site.clock.advance(1)
            assert await site.cycle() == list(range(100))
            answer = site.answers[0]
            ages = [event.age_seconds for event in answer.snapshot.events]
            assert ages[0] == pytest.approx(99.0)
            assert ages[-1] == pytest.approx(0.0)

    asyncio.run(play())


def test_nothing_is_lost_over_an_outage_or_a_daemon_that_is_started_anew(site):
    async def play() -> None:
        seen: set[int] = set()
        async with site.listening():
            pusher = Pusher(site.agent, site.section())
            site.say(1)
            await pusher.push()
        site.inbox = site.daemon()  # what the first one took was never judged
        for step in (2, 3):
            site.say(step)
            assert await pusher.push() > 2
        assert pusher.error is not None
        async with site.listening():
            for _ in range(2):
                await pusher.push()
                seen.update(await site.cycle())
        assert seen == {1, 2, 3}
        assert pusher.error is None

    asyncio.run(play())


def test_a_node_that_falls_silent_is_an_error_that_says_what_to_look_at(site):
    async def play() -> None:
        async with site.listening():
            await Pusher(site.agent, site.section()).push()
        await site.cycle()
        site.clock.advance(35)
        await site.cycle()
        assert [a.node for a in site.answers] == []
        site.clock.advance(15)
        await site.cycle()
        assert [a.node for a in site.answers] == list(FLEET.nodes)
        assert "has sent nothing for 50 s" in site.answers[0].error
        assert "push.url" in site.answers[0].error

    asyncio.run(play())


def test_each_refusal_says_why(site):
    async def send(headers: dict[str, str], body: bytes) -> tuple[int, str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"POST /push HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{lines}\r\n".encode() + body)
        head, _, said = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return int(head.split()[1]), said.decode()

    def headers(node: str = NODE, token: str | None = None, **more: str) -> dict[str, str]:
        token = token if token is not None else node_token(MASTER, node)
        return {"X-Runwatch-Node": node, "Authorization": f"Bearer {token}", **more}

    async def play() -> None:
        await site.agent.cycle()
        from watcher.snapshot import dump_snapshot

        body = dump_snapshot(site.agent.snapshot(None))
        length = {"Content-Length": str(len(body))}
        bomb = gzip.compress(b"[" * (64 << 20))
        cases = [
            (headers(**length), body, 200, "taken"),
            ({**length}, body, 400, "X-Runwatch-Node is missing"),
            (headers(token=node_token(MASTER, FLEET.nodes[1]), **length), body, 401, "does not speak for node"),
            (headers(token="", **length), body, 401, "does not speak for node"),
            (headers("stranger", **length), body, 403, "stranger is not a node"),
            (headers(FLEET.nodes[1], **length), body, 422, f"says that it is node '{NODE}'"),
            (headers(**{"Content-Length": "3"}), b"{[}", 422, NODE),
            (headers(**{"Content-Length": "400000"}), b"[" * 400_000, 422, NODE),
            (headers(**{"Content-Length": str(len(bomb)), "Content-Encoding": "gzip"}), bomb, 422, "larger than 8 MiB"),
            (headers(**{"Content-Length": "4", "Content-Encoding": "gzip"}), b"zzzz", 422, NODE),
        ]  # fmt: skip
        async with site.listening(tls=False):
            for given, sent, status, said in cases:
                got = await send(given, sent)
                assert (got[0], said in got[1]) == (status, True), (got, status, said)
        assert sum(site.inbox.refused.values()) == len(cases) - 1

    asyncio.run(play())


def test_a_body_that_drips_is_given_up(site, monkeypatch):
    monkeypatch.setattr(pushed, "BODY_REAL_SECONDS", 0.2)

    async def play() -> None:
        async with site.listening(tls=False):
            reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
            token = node_token(MASTER, NODE)
            writer.write(
                f"POST /push HTTP/1.1\r\nHost: x\r\nX-Runwatch-Node: {NODE}\r\nAuthorization: Bearer {token}\r\n"
                f"Content-Length: 100\r\n\r\n".encode()
            )
            head = await asyncio.wait_for(reader.readuntil(b"\r\n"), 5)
            assert b"408" in head
            writer.close()

    asyncio.run(play())


def test_a_master_or_token_that_is_being_changed_is_accepted_in_both_forms(site):
    lines = ["new-master", MASTER]
    site.inbox = Pushed(lambda: FLEET.nodes, site.clock, NodeTokens(master=Secret(lambda: "\n".join(lines))))
    (site.folder / "token").write_text(f"{node_token('newest', NODE)}\n{node_token(MASTER, NODE)}\n")

    async def play() -> None:
        async with site.listening():
            pusher = Pusher(site.agent, site.section())
            await pusher.push()
            assert pusher.error is None
            lines.pop()
            await pusher.push()
            assert "does not speak for node" in (pusher.error or "")

    asyncio.run(play())


def test_each_way_that_tls_can_fail_says_what_to_do(site, authority):
    other = trustme.CA()
    other.cert_pem.write_to_path(str(site.folder / "other.pem"))

    async def error(**more: Any) -> str:
        pusher = Pusher(site.agent, site.section(**more))
        await pusher.push()
        return pusher.error or ""

    async def play() -> None:
        async with site.listening():
            assert "agent.push.ca_file must hold the CA" in await error(ca_file=str(site.folder / "other.pem"))
            authority.issue_cert("elsewhere.example").private_key_and_cert_chain_pem.write_to_path(
                str(site.folder / "x.pem")
            )
        async with site.listening():
            assert "is for another name" in await error()
        async with site.listening(tls=False):
            assert "does not speak TLS" in await error()
        assert "Connection refused" in await error()

    asyncio.run(play())


def test_waiting_grows_with_failures_and_follows_retry_after(site):
    replies = [Reply(503, b'{"error": "full"}', "120"), *[Reply(0, error="no route")] * 8]

    async def play() -> None:
        pusher = Pusher(site.agent, site.section(), lambda body: replies.pop(0))
        assert await pusher.push() == 120
        assert "HTTP 503: full" in (pusher.error or "")
        pauses = [await pusher.push() for _ in range(8)]
        assert pauses[0] < 15
        assert 45 <= pauses[-1] <= 75

    asyncio.run(play())


def test_a_renewed_certificate_is_shown_without_a_restart(site, authority):
    tls = ServerTls(site.folder / "x.pem", site.folder / "x.pem")

    def serial() -> int:
        async def shake() -> int:
            server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0, ssl=tls.context)
            port = server.sockets[0].getsockname()[1]
            trust = ssl.create_default_context(cafile=str(site.folder / "ca.pem"))
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
            found = writer.get_extra_info("peercert")["serialNumber"]
            writer.close()
            with contextlib.suppress(ssl.SSLError, ConnectionError):
                await writer.wait_closed()
            server.close()
            return int(found, 16)

        return asyncio.run(shake())

    before = serial()
    (site.folder / "x.pem").write_text("half written")
    tls.refresh()
    assert serial() == before
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(site.folder / "x.pem"))
    tls.refresh()
    assert serial() != before


def test_the_token_of_one_node_is_none_of_another_and_tells_nothing_of_the_master():
    tokens = {node_token(MASTER, node) for node in ("n1", "n2", "n3")}
    assert len(tokens) == 3
    assert all(len(token) == 43 and MASTER not in token for token in tokens)
    assert json.dumps(sorted(tokens))
