"""The pictures of the page in the documents: made from the simulated fleet by RUNWATCH_UPDATE=1, small, and in use."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support.chromium import Visit, browser
from tests.support.served_fleet import RUN, ServedFleet
from watcher.simulate.script import SCRIPTS

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "deploy" / "images"
MAX_BYTES = 150_000
WINDOWS = {  # name -> what is looked at, width, height, colours
    "page-hang": ("/", 1120, 960, "light"),
    "page-phone": ("/", 375, 780, "dark"),
    "page-run": (f"/runs/{RUN}", 1120, 1180, "dark"),
}


@pytest.mark.skipif("RUNWATCH_UPDATE" not in os.environ, reason="set RUNWATCH_UPDATE=1 to make the pictures anew")
def test_the_pictures_are_made_anew(tmp_path: Path) -> None:
    site = ServedFleet(tmp_path, SCRIPTS["deadlock"], nodes=4)
    site.play_until_open()
    site.serve()
    IMAGES.mkdir(exist_ok=True)
    with browser() as chromium:
        for name, (path, width, height, scheme) in WINDOWS.items():
            person = Visit(chromium, site.url, viewport={"width": width, "height": height}, color_scheme=scheme)
            page = person.open(path)
            page.locator(".uplot" if "runs" in path else "canvas[style]").first.wait_for()
            page.wait_for_load_state("networkidle")
            page.screenshot(path=IMAGES / f"{name}.png")
            person.close()
    site.close()


@pytest.mark.parametrize("name", WINDOWS)
def test_each_picture_is_small_and_stands_in_a_document(name: str) -> None:
    picture = (IMAGES / f"{name}.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < MAX_BYTES
    documents = [ROOT / "README.md", *(ROOT / "deploy").glob("*.md")]
    assert any(re.search(rf"\]\([^)]*{name}\.png\)", file.read_text(encoding="utf-8")) for file in documents)
