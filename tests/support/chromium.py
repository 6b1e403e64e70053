"""The Chromium of the system, driven by Playwright; where it must be there (CI), its absence is a failure."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--font-render-hinting=none",
)  # fmt: skip


def chromium_path() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("chromium is not installed; .ci/packages.txt names it")
        pytest.skip("chromium is not installed (apt-get install chromium)")
    return found


@contextmanager
def browser() -> Iterator[Browser]:
    """While it is open, the thread has a running event loop."""
    path = chromium_path()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        try:
            yield started
        finally:
            started.close()


class Visit:
    """One person with one browser window. `problems`: errors of scripts, of the console and of the content policy."""

    def __init__(self, browser: Browser, url: str, **settings: Any) -> None:
        self.context: BrowserContext = browser.new_context(base_url=url, timezone_id="UTC", **settings)
        self.context.set_default_timeout(20_000)
        self.page: Page = self.context.new_page()
        self.problems: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda said: self.problems.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, path: str) -> Page:
        self.page.goto(path)
        return self.page

    def sideways(self) -> int:
        """Pixels by which the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def close(self) -> None:
        self.context.close()
