"""Exporters of nodes, scraped: real sockets, readings, errors that say what to do, and what only looks live."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.support.exporters import Node, Shown, dcgm
from watcher.clock import FakeClock
from watcher.config.telemetry import Telemetry, build_telemetry
from watcher.daemon.answer import Answer, AnswerSource
from watcher.snapshot import XidLine
from watcher.telemetry._node import NodeTelemetry

START = 1_700_000_000.0


def source(
    clock: FakeClock, kind: str = "dcgm_exporter", nodes: Sequence[str] = ("n1",), **section: object
) -> AnswerSource:
    (item,) = TypeAdapter(Telemetry).validate_python([{kind: section}])
    (made,) = build_telemetry([item], lambda: nodes, clock)
    return made


def looks(node: Node, seconds: Sequence[float], kind: str = "dcgm_exporter", **section: object) -> list[Answer]:
    """One look after each wait of `seconds`."""
    clock = FakeClock(START)

    async def look() -> list[Answer]:
        async with node, source(clock, kind, addresses={"n1": node.address}, **section) as asked:
            out = []
            for wait in seconds:
                clock.advance(wait)
                out += await asked.ask_all()
            return out

    return asyncio.run(look())


def gpus(answer: Answer) -> list[float | None]:
    assert answer.snapshot is not None, answer.error
    return [gpu.power_watts for gpu in answer.snapshot.gpus]


def test_a_node_is_read_with_a_token():
    node = Node(lambda: dcgm("n1", [Shown(index=0), Shown(index=1, power=80.0)]))
    (answer,) = looks(node, [0], token="s3cret")
    assert gpus(answer) == [600.0, 80.0]
    assert answer.part == "gpus"
    assert answer.snapshot is not None
    assert answer.snapshot.health["nvml"].ok
    assert answer.snapshot.gpus_age_seconds == 0.0
    assert node.seen[0]["Authorization"] == "Bearer s3cret"


def test_basic_authentication():
    node = Node(lambda: dcgm("n1", [Shown()]))
    looks(node, [0], username="u", password="p")
    assert node.seen[0]["Authorization"] == "Basic dTpw"


def test_refusals_and_strangers_are_told_as_such():
    def error(node: Node) -> str:
        (answer,) = looks(node, [0])
        assert answer.snapshot is None
        return answer.error or ""

    assert "token_file" in error(Node(lambda: "", 401))
    assert "is dcgm_exporter what listens there?" in error(Node(lambda: "", 404))
    assert "tells of no GPU of n1" in error(Node(lambda: "# nothing\nup 1\n"))
    assert "larger than 8 MiB" in error(Node(lambda: "#" * (9 << 20)))


@pytest.mark.parametrize(
    "line",
    [
        'DCGM_FI_DEV_POWER_USAGE{gpu="²",UUID="GPU-2"} 9',
        'DCGM_FI_DEV_POWER_USAGE{gpu="²"} 9',
        'DCGM_FI_DEV_POWER_USAGE{",gpu="0"} 9',
        'DCGM_FI_DEV_POWER_USAGE{gpu="0"} 9 1e400',
        'DCGM_FI_DEV_XID_ERRORS{gpu="0",err_code="²"} 9',
    ],
)
def test_a_line_that_no_parser_expects_costs_no_other_line(line):
    node = Node(lambda: dcgm("n1", [Shown()]) + line + "\n")
    (answer,) = looks(node, [0])
    assert 600.0 in gpus(answer)
    assert answer.snapshot is not None
    assert answer.snapshot.gpus_age_seconds == 0.0


def test_what_goes_wrong_with_one_node_is_told_of_that_node_alone(monkeypatch):
    whole = NodeTelemetry.snapshot

    def fails_for_n1(self: NodeTelemetry, *args: Any) -> Any:
        if self.node == "n1":
            raise KeyError("a fault of ours")
        return whole(self, *args)

    monkeypatch.setattr(NodeTelemetry, "snapshot", fails_for_n1)

    async def look() -> Sequence[Answer]:
        async with Node(lambda: dcgm("n1", [Shown()])) as node:
            addresses = {"n1": node.address, "n2": node.address}
            async with source(FakeClock(START), nodes=("n1", "n2"), addresses=addresses) as asked:
                return await asked.ask_all()

    broken, fine = asyncio.run(look())
    assert broken.error == "what dcgm_exporter tells of n1 cannot be read: KeyError('a fault of ours')"
    assert gpus(fine) == [600.0]


def test_nobody_listens():
    async def look() -> Sequence[Answer]:
        async with source(FakeClock(START), addresses={"n1": "127.0.0.1:1"}) as asked:
            return await asked.ask_all()

    (answer,) = asyncio.run(look())
    assert answer.error is not None
    assert "cannot connect to http://127.0.0.1:1/metrics" in answer.error


def test_an_exporter_whose_energy_stands_still_repeats_old_values_and_is_not_live():
    node = Node(lambda: dcgm("n1", [Shown(energy_mj=1e9)]))
    answers = looks(node, [0, 60, 59, 10])
    assert [gpus(answer) for answer in answers] == [[600.0], [600.0], [600.0], []]
    last = answers[-1].snapshot
    assert last is not None
    assert last.gpus_age_seconds is None
    assert last.health["nvml"].age_seconds == 129.0
    assert last.health["nvml"].error == "dcgm_exporter has told the same values for 129 s: it or the driver hangs"


def test_an_idle_card_whose_energy_goes_on_is_live_however_alike_its_numbers_are():
    joules = iter(range(100))
    node = Node(lambda: dcgm("n1", [Shown(power=70.0, utilization=0.0, energy_mj=next(joules) * 1e6)]))
    assert all(gpus(answer) == [70.0] for answer in looks(node, [0, 600, 600, 600]))


def test_without_energy_only_long_sameness_of_all_is_a_freeze():
    node = Node(lambda: dcgm("n1", [Shown(index=n) for n in range(8)]))
    answers = looks(node, [0, 590, 20])
    assert [len(gpus(answer)) for answer in answers] == [8, 8, 0]


def test_one_gpu_that_stands_still_beside_others_cannot_be_read():
    joules = iter(range(100))
    node = Node(lambda: dcgm("n1", [Shown(energy_mj=next(joules) * 1e6), Shown(index=1, energy_mj=7.0)]))
    last = looks(node, [0, 60, 70])[-1].snapshot
    assert last is not None
    assert [gpu.state for gpu in last.gpus] == ["ok", "unreadable"]
    assert last.gpus[1].power_watts is None


def test_nvitop_that_stopped_looking_is_known_by_its_uptime():
    text = 'host_uptime_Second{hostname="n1"} 500\ngpu_power_usage_W{hostname="n1",index="0",uuid="GPU-1"} 300\n'
    answers = looks(Node(lambda: text), [0, 130], "nvitop_exporter")
    assert [gpus(answer) for answer in answers] == [[300.0], []]


def test_a_failed_round_of_the_exporter_publishes_nothing():
    text = 'nvidia_smi_last_collect_success 0\nnvidia_smi_power_draw_watts{uuid="a"} 300\n'
    (answer,) = looks(Node(lambda: text), [0], "nvidia_gpu_exporter")
    assert gpus(answer) == []
    assert answer.snapshot is not None
    assert not answer.snapshot.health["nvml"].ok


def xids(answers: Sequence[Answer]) -> list[list[int]]:
    out = []
    for answer in answers:
        assert answer.snapshot is not None
        out.append([event.code for event in answer.snapshot.events if isinstance(event, XidLine)])
    return out


def test_the_last_xid_of_dcgm_is_news_only_when_it_changes():
    codes = iter([79, 79, 0, 31, 31, 79])
    node = Node(lambda: dcgm("n1", [Shown(xid=float(next(codes)))]))
    assert xids(looks(node, [0, 10, 10, 10, 10, 10])) == [[], [], [], [31], [], [79]]


def test_a_gpu_that_two_have_scraped_does_not_tell_its_xid_again_and_again():
    def text(new: float, old: float) -> str:
        return dcgm("n1", [Shown(xid=new)]) + dcgm("n1", [Shown(xid=old)], ',replica="b"')

    texts = iter([text(0, 0), text(79, 0), text(79, 0), text(79, 79)])
    assert xids(looks(Node(lambda: next(texts)), [0, 10, 10, 10])) == [[], [79], [], []]


def test_counted_xids_are_news_when_a_series_appears_or_grows():
    base = 'nvidia_smi_power_draw_watts{uuid="a"} 300\n'
    count = 'nvidia_smi_xid_errors_total{uuid="a",xid="48"} %d\n'
    when = f'nvidia_smi_xid_last_timestamp_seconds{{uuid="a",xid="48"}} {START + 8}\n'
    texts = iter([base, base + count % 1 + when, base + count % 1 + when, base + count % 2, base])
    answers = looks(Node(lambda: next(texts)), [0, 10, 10, 10, 10], "nvidia_gpu_exporter")
    assert xids(answers) == [[], [48], [], [48], []]
    assert answers[1].snapshot is not None
    assert answers[1].snapshot.events[0].age_seconds == 2.0


def test_a_text_with_times_of_its_own_is_as_old_as_they_say():
    text = "".join(
        line + (f" {int((START - 100) * 1000)}\n" if line and line[0] != "#" else "\n")
        for line in dcgm("n1", [replace(Shown(), power=1.0)]).splitlines()
    )
    (answer,) = looks(Node(lambda: text), [0])
    assert answer.snapshot is not None
    assert answer.snapshot.gpus_age_seconds == 100.0
