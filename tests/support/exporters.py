"""Expositions as exporters write them, made from what a GPU shows, and a node that serves one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from aiohttp import web


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What one GPU shows. None is left out."""

    index: int = 0
    power: float | None = 600.0
    utilization: float | None = 98.0
    used_mib: float | None = 70_000.0
    free_mib: float | None = 10_000.0
    temperature: float | None = 60.0
    clock: float | None = 1_900.0
    energy_mj: float | None = None
    xid: float | None = 0.0
    limit: float | None = None
    more: dict[str, float] = field(default_factory=dict)


def dcgm(node: str, gpus: Iterable[Shown], labels: str = "") -> str:
    """dcgm-exporter with its default counters (no power limit, no ECC)."""
    rows: dict[str, list[str]] = {}
    for gpu in gpus:
        name = "NVIDIA H100 80GB HBM3"
        whose = (
            f'gpu="{gpu.index}",UUID="GPU-{node}-{gpu.index:04d}",pci_bus_id="00000000:{gpu.index + 1:02X}:00.0",'
            f'device="nvidia{gpu.index}",modelName="{name}",Hostname="{node}"{labels}'
        )
        values = {
            "SM_CLOCK": gpu.clock, "GPU_TEMP": gpu.temperature, "POWER_USAGE": gpu.power, "GPU_UTIL": gpu.utilization,
            "MEM_COPY_UTIL": None if gpu.utilization is None else gpu.utilization / 2, "FB_USED": gpu.used_mib,
            "FB_FREE": gpu.free_mib, "XID_ERRORS": gpu.xid, "TOTAL_ENERGY_CONSUMPTION": gpu.energy_mj,
            "POWER_MGMT_LIMIT": gpu.limit, **gpu.more,
        }  # fmt: skip
        for metric, value in values.items():
            if value is not None:
                rows.setdefault(f"DCGM_FI_DEV_{metric}", []).append(f"DCGM_FI_DEV_{metric}{{{whose}}} {value}")
    return "".join(f"# TYPE {metric} gauge\n" + "\n".join(lines) + "\n" for metric, lines in rows.items())


class Node:
    """Serves what `text` says at /metrics on a free port of loopback. `seen`: headers of each request."""

    def __init__(self, text: Callable[[], str], status: int = 200) -> None:
        self.text, self.status = text, status
        self.seen: list[dict[str, str]] = []
        self.port = 0
        self._runner: web.AppRunner | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> Node:
        app = web.Application()
        app.router.add_get("/metrics", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        server: Any = site._server
        self.port = server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        self.seen.append(dict(request.headers))
        return web.Response(text=self.text(), status=self.status)
