"""Agents that send by themselves, over real sockets and TLS: nothing lost or doubled, a node speaks for itself only."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
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
from watcher.agent.events import EventRing
from watcher.agent.push import LONGEST_ASKED_SECONDS, Pusher, Reply
from watcher.agent.push_http import HttpPost
from watcher.bind import bind
from watcher.clock import FakeClock
from watcher.config.agent import AgentConfig, PushSection
from watcher.config.listen import Listen
from watcher.daemon import push_endpoint
from watcher.daemon.answer import Answer
from watcher.daemon.inbox import KEPT
from watcher.daemon.push_endpoint import PATH, PushEndpoint
from watcher.daemon.pushed import Pushed
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
MASTER = "master-secret-of-the-site-0123456789"


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
        self.start_anew()
        (folder / "token").write_text(node_token(MASTER, NODE))
        config = AgentConfig.model_validate({"agent": {"node": NODE}}).agent
        self.agent = Agent(config, self.clock, SimulatedGpus(FLEET, NODE, self.clock, self.clock.time() - 100), None)
        self.port = 0
        self.pushers: list[Pusher] = []
        self.answers: Sequence[Answer] = ()

    def start_anew(self) -> None:
        """The daemon; it knows nothing of what the one before had taken."""
        self.masters = [MASTER]
        tokens = NodeTokens(master=Secret(lambda: "\n".join(self.masters)))
        self.inbox = Pushed(lambda: FLEET.nodes, self.clock, tokens)
        self.endpoint = PushEndpoint(self.inbox)

    def pusher(self, **more: Any) -> Pusher:
        self.pushers.append(Pusher(self.agent, HttpPost(self.section(**more), NODE)))
        return self.pushers[-1]

    def hang_up(self) -> None:
        for pusher in self.pushers:
            pusher.close()

    def error(self) -> str:
        assert self.agent.push is not None
        return self.agent.push.error or ""

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
            return await self.endpoint.receive(request)

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
            self.hang_up()
            server.should_exit = True
            await serving


@pytest.fixture
def site(tmp_path, authority):
    one = Site(tmp_path)
    yield one
    one.hang_up()


def test_what_is_sent_is_answered_as_if_it_had_been_asked_for(site):
    async def play() -> None:
        async with site.listening():
            await site.agent.cycle()
            pusher = site.pusher()
            site.say(1)
            assert await pusher.push() is None
            assert site.error() == ""
            assert await site.cycle() == [1]
            (answer,) = site.answers
            assert (answer.node, len(answer.snapshot.gpus)) == (NODE, 8)
            site.clock.advance(12)
            assert await site.cycle() == []
            (later,) = site.answers
            assert later.snapshot.gpus == answer.snapshot.gpus
            assert later.snapshot.gpus_age_seconds == answer.snapshot.gpus_age_seconds + 12
            assert later.snapshot.health["nvml"].age_seconds == answer.snapshot.health["nvml"].age_seconds + 12
            assert later.snapshot.sent_at - later.received_at == answer.snapshot.sent_at - answer.received_at
            site.say(2)
            await pusher.push()
            assert await site.cycle() == [2]

    asyncio.run(play())


def test_several_between_two_cycles_are_one_answer_with_all_events_at_their_age(site):
    async def play() -> None:
        async with site.listening():
            await site.agent.cycle()
            pusher = site.pusher()
            for step in range(20):
                site.say(step)
                await pusher.push()
                site.clock.advance(1)
            assert await site.cycle() == list(range(20))
            answer = site.answers[0]
            ages = [event.age_seconds for event in answer.snapshot.events]
            assert ages[0] == pytest.approx(20.0)
            assert ages[-1] == pytest.approx(1.0)

    asyncio.run(play())


def test_nothing_is_lost_over_an_outage_or_a_daemon_that_is_started_anew(site):
    async def play() -> None:
        seen: list[int] = []
        async with site.listening():
            pusher = site.pusher()
            site.say(1)
            await pusher.push()
        site.start_anew()  # what the first one took was never judged
        for step in (2, 3):
            site.say(step)
            assert await pusher.push() > 2
        assert "Connection refused" in site.error()
        async with site.listening():
            for _ in range(2):
                await pusher.push()
                seen += await site.cycle()
        assert seen == [1, 2, 3]
        assert site.error() == ""

    asyncio.run(play())


def test_a_node_that_falls_silent_is_an_error_that_says_what_to_look_at(site):
    async def play() -> None:
        async with site.listening():
            await site.pusher().push()
        await site.cycle()
        site.clock.advance(35)
        await site.cycle()
        assert [a.node for a in site.answers if a.snapshot is not None] == [NODE]
        site.clock.advance(15)
        await site.cycle()
        assert [a.node for a in site.answers] == list(FLEET.nodes)
        assert "no push from" in site.answers[0].error
        assert "push.url" in site.answers[0].error

    asyncio.run(play())


@pytest.mark.parametrize("interval", [1e12, -5.0, float("inf")])
def test_nothing_that_a_node_says_hides_its_silence(site, interval):
    odd = site.agent.snapshot(None).model_copy(update={"interval_seconds": interval})
    site.inbox.take(NODE, site.inbox.inbox(NODE), odd, site.clock.monotonic())
    asyncio.run(site.cycle())
    site.clock.advance(60)
    asyncio.run(site.cycle())
    assert "no push from" in {answer.node: answer.error for answer in site.answers}[NODE]


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
        endless = json.dumps({**json.loads(body), "stream": "s" * 999}).encode()
        bomb = gzip.compress(b"[" * (64 << 20))
        cases = [
            (headers(**length), body, 200, "taken"),
            ({**length}, body, 400, "X-Runwatch-Node is missing"),
            (headers(token=node_token(MASTER, FLEET.nodes[1]), **length), body, 401, "does not speak for node"),
            (headers(token="", **length), body, 401, "does not speak for node"),
            (headers("stranger", **length), body, 403, "is not expected to push"),
            (headers(FLEET.nodes[1], **length), body, 422, f"says that it is node '{NODE}'"),
            (headers(**{"Content-Length": "3"}), b"{[}", 422, "it is no snapshot"),
            (headers(**{"Content-Length": "400000"}), b"[" * 400_000, 422, "it is no snapshot"),
            (headers(**{"Content-Length": str(len(bomb)), "Content-Encoding": "gzip"}), bomb, 422, "larger than 8 MiB"),
            (headers(**{"Content-Length": "4", "Content-Encoding": "gzip"}), b"zzzz", 422, "it is no snapshot"),
            (headers(**{"Content-Length": str(len(endless))}), endless, 422, "no place in a ring"),
        ]  # fmt: skip
        async with site.listening(tls=False):
            for given, sent, status, said in cases:
                got = await send(given, sent)
                assert (got[0], said in got[1]) == (status, True), (got, status, said)
        assert sum(site.inbox.refused.values()) == len(cases) - 1
        assert site.inbox.taken_count == 1

    asyncio.run(play())


def test_a_body_that_drips_is_given_up(site, monkeypatch):
    monkeypatch.setattr(push_endpoint, "BODY_REAL_SECONDS", 0.2)

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
    site.masters[:] = ["new-master-of-the-site-01234567890123", MASTER]
    (site.folder / "token").write_text(f"{node_token('newest', NODE)}\n{node_token(MASTER, NODE)}\n")

    async def play() -> None:
        async with site.listening():
            pusher = site.pusher()
            await pusher.push()
            assert site.error() == ""
            site.masters.pop()
            await pusher.push()
            assert "does not speak for node" in site.error()
            site.masters[:] = ["short"]
            await pusher.push()
            assert "shorter than 32" in site.error()

    asyncio.run(play())


def test_each_way_that_tls_can_fail_says_what_to_do(site, authority):
    other = trustme.CA()
    other.cert_pem.write_to_path(str(site.folder / "other.pem"))

    async def error(**more: Any) -> str:
        await site.pusher(**more).push()
        return site.error()

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


@asynccontextmanager
async def peer(site: Site, answer: Callable[[StreamReader, StreamWriter], Awaitable[None]]) -> AsyncIterator[Pusher]:
    """Something else than a daemon listens, over plain HTTP; gives a pusher whose deadline is short."""
    talks: list[asyncio.Task[None]] = []

    async def talk(reader: StreamReader, writer: StreamWriter) -> None:
        talks.append(asyncio.current_task())
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await answer(reader, writer)
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site.pusher(url=f"http://127.0.0.1:{site.port}", ca_file=None, timeout_seconds=0.3)
    finally:
        site.hang_up()
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks)
        server.close()
        await server.wait_closed()


class Scripted:
    """A transport that answers what it is told to."""

    deadline_real_seconds = 5.0

    def __init__(self, *replies: Reply) -> None:
        self.replies, self.sent = list(replies), []

    def connect(self) -> str | None:
        return None

    def send(self, body: bytes, since: str | None) -> Reply:
        self.sent.append(since)
        return self.replies.pop(0)

    def abort(self) -> None:
        pass

    close = abort


def test_waiting_grows_with_failures_and_follows_retry_after(site):
    busy = Reply(503, b'{"error": "full"}', "120")
    endless = Reply(503, b"[" * 100_000, "99999999999999")
    post = Scripted(busy, *[Reply(0, error="no route")] * 8, endless, Reply(200, b'{"taken": 3}'))

    async def play() -> None:
        pusher = Pusher(site.agent, post)
        assert 120 <= await pusher.push() <= 180
        assert "HTTP 503: full" in site.error()
        pauses = [await pusher.push() for _ in range(8)]
        assert pauses[0] < 16
        assert 60 <= pauses[-1] <= 90
        assert LONGEST_ASKED_SECONDS <= await pusher.push() <= 1.5 * LONGEST_ASKED_SECONDS
        assert await pusher.push() is not None
        assert "is this a runwatch daemon" in site.error()

    asyncio.run(play())


def test_an_answer_that_got_lost_doubles_nothing(site):
    async def play() -> None:
        async with site.listening():
            pusher, other = site.pusher(), site.pusher()
            site.say(1)
            await pusher.push()
            site.say(2)
            await pusher.push()
            await other.push()  # begins anew, as one does that never heard the answers
            assert await site.cycle() == [1, 2]
            site.say(3)
            await other.push()
            await pusher.push()
            assert await site.cycle() == [3]

    asyncio.run(play())


def test_too_many_between_two_cycles_are_asked_to_wait_and_lose_no_event(site):
    async def play() -> None:
        async with site.listening():
            pusher = site.pusher()
            pauses = []
            for step in range(KEPT + 3):
                site.say(step)
                pauses.append(await pusher.push())
            assert [pause is None for pause in pauses] == [True] * KEPT + [False] * 3
            assert "HTTP 429" in site.error()
            first = await site.cycle()
            await pusher.push()
            assert first + await site.cycle() == list(range(KEPT + 3))

    asyncio.run(play())


def test_an_agent_that_is_started_anew_is_read_from_its_beginning(site):
    async def play() -> None:
        async with site.listening():
            site.say(1)
            await site.pusher().push()
            site.agent.ring = EventRing()
            site.say(2)
            await site.pusher().push()
            assert await site.cycle() == [1, 2]

    asyncio.run(play())


def test_the_connection_is_kept(site):
    async def play() -> None:
        ports: set[int] = set()
        receive = site.endpoint.receive

        async def noted(request: Any) -> Any:
            ports.add(request.client.port)
            return await receive(request)

        site.endpoint.receive = noted
        async with site.listening():
            pusher = site.pusher()
            for _ in range(3):
                assert await pusher.push() is None
        assert len(ports) == 1

    asyncio.run(play())


def test_a_connection_that_the_daemon_closed_meanwhile_costs_no_attempt(site):
    asked: list[bytes] = []

    async def once(reader: StreamReader, writer: StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        said = b'{"taken": "s:1"}'
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said))
        await writer.drain()

    async def play() -> None:
        async with peer(site, once) as pusher:
            for _ in range(3):
                assert await pusher.push() is None, site.error()
        assert len(asked) == 3

    asyncio.run(play())


async def never(reader: StreamReader, writer: StreamWriter) -> None:
    await asyncio.sleep(60)


async def drip(reader: StreamReader, writer: StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("answer", [never, drip])
def test_a_daemon_that_is_slow_without_end_costs_no_more_than_the_deadline(site, answer):
    async def play() -> None:
        async with peer(site, answer) as pusher:
            for _ in range(2):
                async with asyncio.timeout(10):
                    assert await pusher.push() is not None
                assert "no answer" in site.error() or "takes too long" in site.error()

    asyncio.run(play())


def test_whatever_goes_wrong_in_an_attempt_the_next_one_comes(site):
    class Broken(Scripted):
        def send(self, body: bytes, since: str | None) -> Reply:
            self.sent.append(since)
            if len(self.sent) == 1:
                raise RuntimeError("unforeseen")
            return Reply(200, b'{"taken": "s:1"}')

    async def play() -> None:
        post = Broken()
        pusher = Pusher(site.agent, post)
        running = asyncio.create_task(pusher.run())
        async with asyncio.timeout(10):
            while site.agent.push.taken_count < 2:
                pusher.wake()
                await asyncio.sleep(0)
        running.cancel()
        assert post.sent[:3] == [None, None, "s:1"]
        assert site.agent.push.failed_count == 1

    asyncio.run(play())


def test_a_refusal_is_told_once_and_in_the_answer_for_the_node(site, caplog):
    caplog.set_level("INFO")

    async def play() -> None:
        async with site.listening():
            (site.folder / "token").write_text(node_token(MASTER, FLEET.nodes[1]))
            pusher = site.pusher()
            for _ in range(3):
                await pusher.push()
            site.clock.advance(60)
            await site.cycle()
            told = {answer.node: answer.error for answer in site.answers}
            assert "the token does not speak for node" in told[NODE]
            assert "no push yet from" in told[FLEET.nodes[1]]
            (site.folder / "token").write_text(node_token(MASTER, NODE))
            await pusher.push()

    asyncio.run(play())
    told = [record.message for record in caplog.records if record.name == "watcher.daemon.pushed"]
    assert [message.partition(":")[0] for message in told] == [
        f"push of {NODE} refused", f"push of {NODE} is taken again",
    ]  # fmt: skip


def test_a_renewed_certificate_is_shown_without_a_restart(site, authority):
    tls = ServerTls(site.folder / "x.pem", site.folder / "x.pem")
    tls_key = (site.folder / "x.pem").read_text().partition("-----BEGIN CERTIFICATE")[0]

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
    for half in ("half written", authority.issue_cert("127.0.0.1").cert_chain_pems[0].bytes().decode() + tls_key):
        (site.folder / "x.pem").write_text(half)
        tls.refresh()
        assert serial() == before
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
