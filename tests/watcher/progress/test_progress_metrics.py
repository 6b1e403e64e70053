"""Steps from metrics of the job: what moved, when it did, what is a new launch, and what says nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import TypeAdapter, ValidationError

from tests.support.exporters import Node
from tests.support.prometheus import configuration, prometheus
from tests.support.runs import START, ScriptedRun, opened
from tests.support.tape import Tape
from watcher.clock import FakeClock
from watcher.config.telemetry import Progress, build_progress
from watcher.daemon.answer import Answer
from watcher.daemon.fold import RunFold, RunSettings
from watcher.daemon.shared_logs import LogReader
from watcher.events import LogEvent
from watcher.progress._sections import parse_selector
from watcher.progress._steps import StepWatch
from watcher.snapshot import LogLine, LogStatus
from watcher.telemetry._prometheus_api import Series

NOW = 1_700_000_000.0


def told(watch: StepWatch, *series: Series) -> list[tuple[float, str, int | None]]:
    return [(at, event.event, event.step) for at, event in watch.take(series, {})]


def rank(name: str, *points: tuple[float, float]) -> Series:
    return Series({"rank": name}, points)


def test_only_a_counter_that_moved_is_progress():
    watch = StepWatch()
    assert told(watch, rank("0", (0, 10), (15, 10), (30, 12))) == [(0, "step", 10), (30, "step", 12)]
    assert told(watch, rank("0", (30, 12), (45, 12))) == []
    assert watch.newest_at == 45


def test_the_furthest_rank_counts_and_one_that_lags_or_ends_is_no_restart():
    watch = StepWatch()
    first = told(watch, rank("0", (0, 10), (15, 12)), rank("1", (0, 9), (15, 11)))
    assert first == [(0, "step", 10), (15, "step", 12)]
    assert told(watch, rank("1", (30, 12), (300, 12), (315, 13))) == [(315, "step", 13)]


def test_a_counter_that_falls_is_a_new_launch():
    watch = StepWatch()
    told(watch, rank("0", (0, 1000)))
    assert told(watch, rank("0", (60, 900))) == [(60, "phase", None), (60, "step", 900)]
    assert told(watch, rank("0", (75, 901))) == [(75, "step", 901)]


def test_another_series_from_an_earlier_step_after_all_old_ones_ended_is_a_new_launch():
    watch = StepWatch()
    told(watch, Series({"pod": "a"}, ((0, 1000),)))
    assert told(watch, Series({"pod": "b"}, ((400, 900),))) == [(400, "phase", None), (400, "step", 900)]


def test_a_launch_that_follows_at_once_under_another_name_is_known_when_the_old_one_has_ended():
    watch = StepWatch()
    told(watch, Series({"pod": "a"}, ((0, 1000),)))
    new = [(30 + 15.0 * n, 900.0 + n) for n in range(10)]
    assert told(watch, Series({"pod": "b"}, tuple(new))) == [(165, "phase", None), (165, "step", 909)]
    assert told(watch, Series({"pod": "b"}, ((180, 910),))) == [(180, "step", 910)]


def test_a_rank_that_lags_is_no_launch_when_the_one_ahead_ends():
    watch = StepWatch()
    told(watch, rank("0", (0, 1000), (15, 1001)), rank("1", (0, 999), (15, 1000)))
    assert told(watch, rank("1", (200, 1000), (215, 1002))) == [(215, "step", 1002)]


def test_numbers_that_are_no_steps_are_passed_over():
    assert told(StepWatch(), rank("0", (0, float("nan")), (1, float("inf")), (2, 1e300))) == []


def test_what_stands_beside_the_step_goes_with_it():
    beside = {"loss": [Series({}, ((0, 3.0), (15, 2.5)))], "tokens_per_second": [Series({}, ((14, 1e5),))],
              "total_steps": [Series({}, ((15, 500.0),))], "grad_norm": [Series({}, ((-100, 1.0),))]}  # fmt: skip
    ((_, event),) = StepWatch().take([rank("0", (15, 7))], beside)
    assert (event.loss, event.tokens_per_second, event.total_steps, event.grad_norm) == (2.5, 1e5, 500, None)


def reader(clock: FakeClock, **item: Any) -> LogReader:
    fold = RunFold(RunSettings(name="r", nodes=("n1",)))
    return build_progress(TypeAdapter(Progress).validate_python(item), fold, clock)


def frames(made: LogReader, clock: FakeClock, waits: Sequence[float]) -> list[Any]:
    async def look() -> list[Any]:
        out = []
        async with made:
            for wait in waits:
                clock.advance(wait)
                lines, statuses = await made.read()
                made.fold.observe_log(clock.time(), lines, statuses)
                out.append(made.fold.frame(clock.time()))
        return out

    return asyncio.run(look())


def test_steps_from_the_jobs_own_endpoint():
    step = iter([100, 101, 101])
    node = Node(lambda: f'train_step{{run="a",rank="0"}} {next(step)}\ntrain_step{{run="b"}} 9\nloss{{run="a"}} 2.5\n')

    async def look() -> list[Any]:
        async with node:
            clock = FakeClock(NOW)
            made = reader(
                clock, endpoint={"url": f"http://{node.address}/metrics", "step": 'train_step{run="a"}', "loss": "loss"}
            )
            out = []
            async with made:
                for _ in range(3):
                    clock.advance(10)
                    made.fold.observe_log(clock.time(), *await made.read())
                    out.append(made.fold.frame(clock.time()))
            return out

    last = asyncio.run(look())[-1]
    assert last.progress.last_step == 101
    assert last.progress.last_step_at == NOW + 20
    assert last.progress.last_line_at == NOW + 30
    assert last.progress.records[-1].loss == 2.5
    assert last.progress.hidden is None


def test_a_job_whose_clock_was_ahead_is_read_on_when_it_is_right_again():
    lines = iter([f"s 1 {int(NOW + 9_999)}000", f"s 2 {int(NOW + 20)}000", "s 3 1e400"])

    async def look() -> Any:
        async with Node(lambda: next(lines) + "\n") as node:
            clock = FakeClock(NOW)
            made = reader(clock, endpoint={"url": f"http://{node.address}/metrics", "step": "s"})
            async with made:
                for _ in range(3):
                    clock.advance(10)
                    made.fold.observe_log(clock.time(), *await made.read())
            return made.fold.frame(clock.time())

    frame = asyncio.run(look())
    assert (frame.progress.last_step, frame.progress.last_step_at) == (3, NOW + 30)


def test_a_job_that_does_not_answer_is_silent_and_nothing_is_hidden():
    clock = FakeClock(NOW)
    (frame,) = frames(reader(clock, endpoint={"url": "http://127.0.0.1:1/metrics", "step": "s"}), clock, [0])
    assert frame.progress.hidden is None
    assert "cannot connect" in frame.log_sources[0].error


def test_an_engine_that_does_not_answer_hides_the_run():
    clock = FakeClock(NOW)
    (frame,) = frames(reader(clock, prometheus={"url": "http://127.0.0.1:1", "step": "s"}), clock, [0])
    assert "cannot connect" in frame.progress.hidden


def test_half_an_answer_of_an_engine_without_the_run_in_it_hides_the_run():
    """A store behind a Thanos is silent: it answers with what the others hold, and a warning."""

    async def handle(request: web.Request) -> web.Response:
        if request.query["query"] == "time()":
            return web.json_response({"status": "success", "data": {"resultType": "scalar", "result": [NOW, str(NOW)]}})
        nothing = {"resultType": "matrix", "result": []}
        return web.json_response({"status": "success", "data": nothing, "warnings": ["store 10.0.0.7: no answer"]})

    async def look() -> Any:
        app = web.Application()
        app.router.add_get("/api/v1/query", handle)
        async with TestServer(app) as server:
            clock = FakeClock(NOW)
            made = reader(clock, prometheus={"url": str(server.make_url("")), "step": "s"})
            async with made:
                made.fold.observe_log(clock.time(), *await made.read())
            return made.fold.frame(clock.time())

    assert "has no sample of prometheus s and warns: store 10.0.0.7" in asyncio.run(look()).progress.hidden


def test_steps_from_a_real_prometheus_have_the_times_of_their_samples_and_a_dead_job_makes_none(tmp_path):
    tape, start = Tape(), time.time() - 300
    for n in range(14):  # the job dies 210 s after the start, 90 s ago
        tape.add("train_step", {"job": "llm"}, start + 15 * n, 100 + n)
        tape.add("train_loss", {"job": "llm"}, start + 15 * n, 3 - n / 10)
    with prometheus(tmp_path, configuration({}), data=tape.write(tmp_path)) as server:
        clock = FakeClock(time.time())
        made = reader(clock, prometheus={"url": server.url, "step": 'train_step{job="llm"}', "loss": "train_loss"})
        first, again = frames(made, clock, [0, 10])
    assert first.progress.last_step == again.progress.last_step == 113
    assert first.progress.last_step_at == pytest.approx(start + 195, abs=5)
    assert again.progress.last_line_at == pytest.approx(start + 195, abs=15)
    assert first.progress.records[-1].loss == pytest.approx(1.7)
    assert first.progress.records[-1].step_seconds == pytest.approx(15, abs=1)


class EngineGone(ScriptedRun):
    """GPUs and steps by one engine, which does not answer from second 900 to second 3600; the run goes on."""

    def poll(self) -> None:
        now, gone = START + self.t, 900 < self.t <= 3600
        for node in self.nodes:
            told = self.answer(node, [])
            self.fold.observe(Answer(node, now, None, "no answer from the engine") if gone else told)
        step = int(self.t / 10)
        status = LogStatus(
            path="p", file="p", lines=step, steps=step, last_line_age_seconds=0, hidden=gone, error="down"
        )
        event = LogEvent(event="step", step=step)
        line = LogLine(seq=step, age_seconds=0, path="p", file="p", offset=step, event=event)
        self.fold.observe_log(now, () if gone else (line,), (status,))


def test_an_engine_that_is_down_for_an_hour_is_told_as_that_and_not_as_a_stall_and_its_gap_is_not_learnt():
    run = EngineGone()
    run.play(4500)
    assert {t.incident.signature for t in opened(run.transitions)} == {"node_unreachable"}
    learnt = run.fold.frame(START + 4510).learnt.gaps["training"]
    assert learnt.longest_seconds < 60


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ({"prometheus": {"url": "http://x", "step": "max(train_step)"}}, "plain selector"),
        ({"prometheus": {"url": "http://x"}}, "step"),
        ({"endpoint": {"url": "http://x/metrics", "step": 's{a=~"b"}'}}, 'label="value" alone'),
        ({"endpoint": {"url": "x/metrics", "step": "s"}}, "must begin with http"),
        ({"endpoint": {"url": "http://a:b@x/metrics", "step": "s"}}, "carries a password"),
        ({"log": {}}, "log"),
        ({}, "must be one of endpoint, prometheus"),
    ],
)
def test_what_cannot_work_is_told_before_the_start(item, told):
    with pytest.raises(ValidationError, match=told):
        TypeAdapter(Progress).validate_python(item)


def test_selectors_with_commas_and_quotes_in_their_values():
    assert parse_selector('a:b{x="1,2", y="say \\"hi\\""}') == ("a:b", {"x": "1,2", "y": 'say "hi"'})
