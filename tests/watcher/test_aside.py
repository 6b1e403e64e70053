from __future__ import annotations

import asyncio
import threading

import pytest

from watcher.aside import aside


def test_the_result_and_the_error_of_the_work_come_back() -> None:
    def broken() -> None:
        raise OSError("gone")

    async def main() -> int:
        with pytest.raises(OSError, match="gone"):
            await aside(broken)
        return await aside(lambda: 42)

    assert asyncio.run(main()) == 42


def test_work_that_never_ends_does_not_hold_up_the_end() -> None:
    release = threading.Event()

    async def main() -> bool:
        done, _ = await asyncio.wait({aside(release.wait)}, timeout=0.01)
        return bool(done)

    try:
        assert asyncio.run(main()) is False  # with asyncio.to_thread this would not come back
    finally:
        release.set()
