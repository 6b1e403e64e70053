from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest

from alerts.channels.email import EmailSection, message
from alerts.facts import RunFacts
from alerts.notification import notification_from_json, notification_to_json
from alerts.picture import draw
from alerts.policy import Intent
from alerts.render import notification
from detectors.telemetry import GpuRef, History
from tests.alerts.channels.channel_cases import sample


def _history(gpus: int, rows: int = 180) -> History:
    shape = (rows, gpus)
    power = np.full(shape, 350.0, np.float32)
    power[rows // 2 :] = 0.0
    power[:, :1] = np.nan
    nothing = np.full(shape, np.nan, np.float32)
    return History(
        gpus=[GpuRef("n1", f"GPU-{i}", i) for i in range(gpus)], at=np.arange(rows, dtype=np.float64) * 10,
        power_watts=power, utilization_ratio=np.ones(shape, np.float32), memory_utilization_ratio=nothing,
        memory_used_ratio=nothing, temperature_celsius=nothing, sm_clock_mhz=nothing,
        progressing=np.ones(rows, np.bool_), power_limit_watts=np.full(gpus, 700.0, np.float32),
    )  # fmt: skip


def _pixels(png: bytes) -> np.ndarray:  # type: ignore[type-arg]
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    length = struct.unpack(">I", png[33:37])[0]
    assert png[37:41] == b"IDAT"
    rows = np.frombuffer(zlib.decompress(png[41 : 41 + length]), np.uint8).reshape(height, 1 + 3 * width)
    return rows[:, 1:].reshape(height, width, 3)


def test_power_falls_steps_are_marked_and_what_is_not_known_is_grey() -> None:
    png = draw(_history(8), [0.0, 895.0, 99_999.0])
    assert png is not None
    image = _pixels(png)
    assert (image[0].sum(axis=1) > 0).sum() == 2  # two of three steps lie within
    unknown, before, after = image[8 + 2, 5], image[8 + 20, 5], image[8 + 20, -5]
    assert tuple(unknown) == (128, 128, 128)
    assert before[0] > 200
    assert after[2] > after[0]


@pytest.mark.parametrize("gpus", [1, 8, 512, 4096])
def test_it_stays_small_for_any_fleet(gpus: int) -> None:
    png = draw(_history(gpus))
    assert png is not None
    assert len(png) < 60_000
    assert _pixels(png).shape[0] <= 8 + 6 + 2 * 240


def test_nothing_to_draw_is_no_picture() -> None:
    assert draw(_history(8, rows=1)) is None
    assert draw(_history(0)) is None


def test_a_page_takes_the_picture_along_through_the_store_into_the_mail() -> None:
    incident = sample().incident
    intent = Intent(channel="x", kind="opened", incident=incident, dedup_key="k", reason="opened")
    page = notification(intent, 0.0, RunFacts(run="tr7", history=_history(8)))
    again = notification_from_json(notification_to_json(page))
    assert again == page
    assert again.picture == draw(_history(8))
    section = EmailSection(host="h", sender="rw@example.org", to=("a@example.org",))
    parts = [part.get_content_type() for part in message(section, page, False).walk()]
    assert parts == [
        "multipart/alternative", "text/plain", "multipart/related", "text/html", "image/png",
    ]  # fmt: skip
    ended = replace(intent, kind="resolved")
    assert notification(ended, 0.0, RunFacts(run="tr7", history=_history(8))).picture is None
