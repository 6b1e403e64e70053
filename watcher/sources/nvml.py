"""GPU readings from a child process that owns NVML. It may hang in the kernel, take 45 s or crash; we go on.

One request is out at a time. A child that answers late is still used; one that is silent for `stuck_seconds` is killed
and replaced, with a growing pause. One that even SIGKILL does not end is left behind, two of them at most. A child that
NVML refuses makes room for a new one, for a library once loaded stays loaded.
One GPU that hangs or kills the child costs the others nothing: see nvml_turns and nvml_silent.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from detectors.telemetry import GpuReading, SourceHealth
from watcher.clock import Clock
from watcher.snapshot import clean_gpu
from watcher.sources.nvml_silent import Crashes, Silent, SilentGpus
from watcher.sources.rates import Rates, with_rates

log = logging.getLogger(__name__)
COMMAND = (sys.executable, "-I", "-m", "watcher.sources.nvml_child")
MAX_LINE = 4 << 20
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 2.0, 30.0  # after a driver recovers, readings are back within a minute
MAX_LEFT_BEHIND = 2
KILL_REAL_SECONDS = 1.0
MAX_PIDS = 1024
READING_FIELDS = frozenset(GpuReading.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class GpuReadings:
    """`read_at`: monotonic seconds of the clock when the child answered.

    `pids`: processes that hold a GPU, as numbers of the host. `xids`: (code, UUID where known) since the last reading.
    `devices_count`: GPUs that NVML counts, also one that is lost and never told its name. None: not known.
    """

    gpus: tuple[GpuReading, ...]
    read_at: float
    driver_version: str | None = None
    rejected: tuple[str, ...] = ()
    pids: frozenset[int] = frozenset()
    xids: tuple[tuple[int, str | None], ...] = ()
    devices_count: int | None = None


class NvmlSource:
    """`poll(deadline)` once a cycle; `latest` and `health` answer from memory at any time."""

    name = "nvml"

    def __init__(
        self, clock: Clock, command: Sequence[str] = COMMAND, env: Mapping[str, str] | None = None,
        stuck_seconds: float = 45.0, gpu_seconds: float = 2.0,
    ) -> None:  # fmt: skip
        self._clock, self._env, self._stuck = clock, env, stuck_seconds
        self._command = (*command, str(clock.real_seconds(gpu_seconds)))
        self.latest: GpuReadings | None = None
        self.replacements_count = 0
        self.reading_seconds: float | None = None  # how long the last one took
        self._rates = Rates()
        self._silent, self._crashes = SilentGpus(), Crashes()
        self._told: set[tuple[str, str]] = set()  # GPU and field: named as not supported
        self._child: asyncio.subprocess.Process | None = None
        self._answer: asyncio.Task[bytes] | None = None
        self._asked_at = 0.0
        self._pause = FIRST_PAUSE_SECONDS
        self._not_before = 0.0
        self._left_behind: list[asyncio.subprocess.Process] = []
        self._error: tuple[str, str] | None = None  # kind, text
        self.released = False

    async def poll(self, deadline_seconds: float) -> None:
        """Asks for a reading and waits for it no longer than the deadline. Never raises."""
        now = self._clock.monotonic()
        if self.released:
            return
        if self._answer is None and not await self._ask(now):
            return
        assert self._answer is not None
        await asyncio.wait({self._answer}, timeout=self._clock.real_seconds(deadline_seconds) or 0.001)
        if self._answer.done():
            await self._take()
        elif self._clock.monotonic() - self._asked_at >= self._stuck:
            self._error = ("stuck", self._stuck_text())
            await self._replace()

    def health(self) -> SourceHealth:
        now = self._clock.monotonic()
        age = None if self.latest is None else now - self.latest.read_at
        if self.released:
            return SourceHealth(ok=False, kind="released", error="the GPUs were let go on request", age_seconds=age)
        if self._error is not None:
            return SourceHealth(ok=False, kind=self._error[0], error=self._error[1], age_seconds=age)
        if self._answer is not None and now - self._asked_at >= self._stuck:
            return SourceHealth(ok=False, kind="stuck", error=self._stuck_text(), age_seconds=age)
        if self.latest is None:
            return SourceHealth(ok=False, kind="starting", error="not read yet", age_seconds=None)
        silent = self._silent.worst(now, self._stuck)
        if silent is not None:
            error = _partial_text(silent, len(self.latest.gpus))
            return SourceHealth(ok=False, kind=silent.kind, error=error, age_seconds=silent.seconds)
        return SourceHealth(ok=True, age_seconds=age)

    async def release(self) -> None:
        """Let go of the GPUs, so that they can be reset; `resume` takes them again."""
        self.released = True
        self.latest = None
        await self._end()

    def resume(self) -> None:
        self.released, self._not_before = False, 0.0

    async def close(self) -> None:
        await self._end()

    async def _ask(self, now: float) -> bool:
        self._left_behind = [child for child in self._left_behind if child.returncode is None]
        if self._child is None:
            if now < self._not_before or len(self._left_behind) >= MAX_LEFT_BEHIND:
                return False
            try:
                self._child = await asyncio.create_subprocess_exec(
                    *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL, env=self._env, limit=MAX_LINE, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                self._error = ("crashed", f"the reader of the GPUs cannot be started: {error.strerror}")
                self._wait_longer(now)
                return False
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        with contextlib.suppress(ConnectionError, RuntimeError):  # it has ended: the answer below says so
            child.stdin.write(self._crashes.request(now))
        self._asked_at = now
        self._answer = asyncio.create_task(self._line(child.stdout))
        return True

    async def _line(self, stream: asyncio.StreamReader) -> bytes:
        """The answer; a bare number before it says which GPU the child is at."""
        while (line := await stream.readline()).strip().isdigit():
            self._crashes.reached(int(line))
        return line

    async def _take(self) -> None:
        answer, self._answer = self._answer, None
        assert answer is not None
        try:
            value = json.loads(answer.result())
        except (ValueError, OSError):
            await self._crashed()
            return
        now = self._clock.monotonic()
        if not isinstance(value, dict) or "error" in value:
            broken = value if isinstance(value, dict) else {}
            self._error = (str(broken.get("kind", "unknown")), str(broken.get("error", "no answer"))[:300])
            self._wait_longer(now)
            await self._end()
            return
        gpus = [*value.get("gpus", ()), *self._left_out(now)]
        self._silent.take(gpus, now)
        self.latest = _readings({**value, "gpus": gpus}, now, self._rates, self._silent)
        self.reading_seconds = now - self._asked_at
        self._tell_unsupported(self.latest.gpus)
        if self._error is not None:
            log.info("gpu readings are back after kind=%s", self._error[0])
        self._error, self._pause = None, FIRST_PAUSE_SECONDS

    async def _crashed(self) -> None:
        child = self._child
        code = await child.wait() if child is not None else None
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        self._error = ("crashed", f"the reader of the GPUs ended by {how}: a fault in the driver's library")
        self._crashes.crashed(self._clock.monotonic())
        await self._replace()

    def _left_out(self, now: float) -> list[dict[str, Any]]:
        """What is said of GPUs that kill their reader: their names as they were known."""
        known = {} if self.latest is None else {gpu.index: gpu for gpu in self.latest.gpus}
        out: list[dict[str, Any]] = []
        for index in self._crashes.left_out(now):
            gpu = known.get(index)
            named = {} if gpu is None else {key: getattr(gpu, key) for key in ("uuid", "name", "serial", "pci_bus_id")}
            why = "its reading kills the reader and is left out for a while"
            out.append({**named, "index": index, "state": "unreadable", "left_out": True, "error": why})
        return out

    def _tell_unsupported(self, gpus: Sequence[GpuReading]) -> None:
        """Once per GPU and field, in one line for all that are alike: who misses a value shall find out why."""
        alike: dict[tuple[str, ...], list[int]] = {}
        for gpu in gpus:
            new = tuple(name for name in gpu.unsupported if (gpu.uuid, name) not in self._told)
            if new:
                self._told.update((gpu.uuid, name) for name in new)
                alike.setdefault(new, []).append(gpu.index)
        for names, indices in alike.items():
            log.info("gpu %s does not support %s", ", ".join(map(str, indices)), ", ".join(names))

    def _stuck_text(self) -> str:
        seconds = self._clock.monotonic() - self._asked_at
        return f"an NVML call has not returned for {seconds:.0f} s: the driver hangs (look for state D, dmesg)"

    async def _replace(self) -> None:
        log.warning("gpu reader is replaced kind=%s", self._error[0] if self._error else "")
        self.replacements_count += 1
        self._wait_longer(self._clock.monotonic())
        await self._end()

    def _wait_longer(self, now: float) -> None:
        self._not_before = now + self._pause
        self._pause = min(LONGEST_PAUSE_SECONDS, 2 * self._pause)

    async def _end(self) -> None:
        """Kills the child; one in an uninterruptible wait is left behind, never waited for."""
        answer, self._answer = self._answer, None
        child, self._child = self._child, None
        if answer is not None:
            answer.cancel()
        if child is None or child.returncode is not None:
            return
        try:
            child.kill()
            await asyncio.wait_for(child.wait(), KILL_REAL_SECONDS)
        except ProcessLookupError:
            return
        except TimeoutError:
            self._left_behind.append(child)


def _partial_text(silent: Silent, count: int) -> str:
    why = f"{silent.why}; {silent.name}"
    if silent.kind == "stuck":
        return f"GPU {silent.index} has not answered for {silent.seconds:.0f} s, {count - 1} others do ({why})"
    return f"GPU {silent.index} cannot be read, {count - 1} others can ({why})"


def _readings(value: dict[str, Any], now: float, rates: Rates, silent: SilentGpus) -> GpuReadings:
    gpus, rejected = [], []
    pids: set[int] = set()
    for raw in sorted(value.get("gpus", ()), key=lambda gpu: int(gpu["index"])):
        if "uuid" not in raw:
            continue
        cleaned, dropped = clean_gpu(with_rates(raw, rates, now))
        rejected += dropped
        pids.update(cleaned.pop("pids", ()))
        cleaned["unsupported"] = tuple(cleaned.get("unsupported", ()))
        if "mig_devices" in cleaned:
            sizes = cleaned["mig_devices"].items()
            cleaned["mig_devices"] = {uuid: None if both is None else tuple(both) for uuid, both in sizes}
        cleaned["unread_seconds"] = silent.seconds(raw["uuid"], now)
        gpus.append(GpuReading(**{key: item for key, item in cleaned.items() if key in READING_FIELDS}))
    xids = tuple((int(xid["code"]), xid.get("uuid")) for xid in value.get("xids", ()))
    held = frozenset(sorted(pids)[:MAX_PIDS])
    devices = value.get("devices")
    return GpuReadings(tuple(gpus), now, value.get("driver_version"), tuple(rejected), held, xids, devices)
