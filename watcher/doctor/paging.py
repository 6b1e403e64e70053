"""Would a page arrive, and would anybody notice that this watchdog has died?"""

from __future__ import annotations

from collections.abc import Iterator

from watcher.doctor._api import Check, Line, Scene


def look(scene: Scene) -> Iterator[Line]:
    for note in scene.notes:
        yield Line("warn", "config", note)
    if scene.daemon is not None:
        yield Line("note", "daemon", scene.daemon)
    else:
        yield Line("ok", "daemon", "one is running with this config")
    if not scene.config.channels:
        yield Line("fail", "pages", "no channel: nobody will be paged", "add one under channels: (deploy/paging.md)")
    elif scene.pages is None:
        yield Line("note", "pages", "no test page was sent, as you asked")
    else:
        for name, error in scene.pages.items():
            if error is None:
                yield Line("ok", "pages", f"{name}: a test page was sent and resolved")
            else:
                yield Line("fail", "pages", f"{name}: {error}")
    if scene.config.daemon.dead_man is None:
        yield Line(
            "warn", "dead man", "not set: when this host dies, nobody hears of it",
            "daemon.dead_man.url_file: a healthchecks-compatible URL outside of this site",
        )  # fmt: skip
    elif scene.config.daemon.dead_man.alertmanager is not None:
        yield Line("ok", "dead man", "an alert that is always there; route RunwatchWatchdog to whoever notices its end")
    else:
        yield Line("ok", "dead man", f"pinged every {scene.config.daemon.dead_man.interval_seconds:.0f} s")


CHECK = Check(100, of_watchdog=look)
