"""`runwatch demo`: a run hangs, a person is paged, it is restarted. No GPU, no network, under a minute."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from watcher.cli._command import Command, UsageError

if TYPE_CHECKING:
    from alerts.incidents import Transition
    from watcher.demo.stage import Show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scenario", default="deadlock", metavar="NAME", help="deadlock (default) or dataloader")
    parser.add_argument("--json", action="store_true", help="one JSON object a transition, as replay prints them")
    parser.add_argument("--serve", action="store_true", help="go on and serve the daemon's page until Ctrl-C")
    parser.add_argument("--speed", type=float, default=45.0, metavar="N", help="times real time (default: %(default)g)")


def run(args: argparse.Namespace) -> int:
    import asyncio
    import tempfile
    from pathlib import Path

    from watcher.demo.stage import perform, resolved_something
    from watcher.simulate.script import SCRIPTS, going_on

    script = SCRIPTS.get(args.scenario)
    if script is None:
        raise UsageError(f"--scenario {args.scenario}: no such scenario; there are {', '.join(SCRIPTS)}")
    if args.speed <= 0:
        raise UsageError("--speed must be above 0")
    audience = _Json() if args.json else _Terminal() if sys.stdout.isatty() else _Plain()
    audience.announce(script.about)
    if args.serve:
        audience.opens_page = True
        script = going_on(script)
    with tempfile.TemporaryDirectory(prefix="runwatch-demo-") as folder, audience:
        encore = asyncio.Event() if args.serve else None
        show = asyncio.run(perform(script, Path(folder), args.speed, audience.tick, audience.transition, encore=encore))
    audience.end(show)
    return 0 if resolved_something(show.transitions, script.signature) else 1


class _Plain:
    """A line now and then, and each page as a person gets it."""

    def __init__(self) -> None:
        self._printed = 0
        self._ticks = 0
        self.opens_page = False

    def __enter__(self) -> None:
        return

    def __exit__(self, *error: object) -> None:
        return

    def announce(self, about: str) -> None:
        print(f"A simulated run on 2 nodes x 8 A100: {about}.\n")

    def tick(self, show: Show) -> None:
        from watcher.demo.screen import line

        self._address(show)
        self._pages(show)
        if self._ticks % 6 == 0:
            print(line(show), flush=True)
        self._ticks += 1

    def transition(self, transition: Transition) -> None:
        incident = transition.incident
        print(f"--- {transition.event}: {incident.key} ({incident.signature})", flush=True)

    def end(self, show: Show) -> None:
        self._pages(show)
        print(_bill(show))

    def _address(self, show: Show) -> None:
        """Where the page is, once."""
        if self.opens_page:
            self._say(f"The page: {show.url}/  (Ctrl-C ends the demo)\n")
        self.opens_page = False

    def _say(self, text: str) -> None:
        print(text, flush=True)

    def _pages(self, show: Show) -> None:
        for page in show.pages[self._printed :]:
            print(f"\n{'=' * 78}\n{page['text']}\n{'=' * 78}\n", flush=True)
        self._printed = len(show.pages)


class _Terminal(_Plain):
    """The run live; pages scroll up above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__()
        self._console = Console()
        self._live = Live(console=self._console, refresh_per_second=8)

    def __enter__(self) -> None:
        self._live.start()

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def tick(self, show: Show) -> None:
        from watcher.demo.screen import draw

        self._address(show)
        self._pages(show)
        self._live.update(draw(show))

    def transition(self, transition: Transition) -> None:
        return

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False)

    def _pages(self, show: Show) -> None:
        from rich.panel import Panel
        from rich.text import Text

        for page in show.pages[self._printed :]:
            colour = "green" if page["action"] == "resolve" else "red"
            self._console.print(Panel(Text(page["text"]), title=f"page: {page['kind']}", border_style=colour))
        self._printed = len(show.pages)


class _Json(_Plain):
    """Transitions and nothing else on standard output."""

    def announce(self, about: str) -> None:
        return

    def tick(self, show: Show) -> None:
        self._address(show)

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def transition(self, transition: Transition) -> None:
        from alerts.incidents import transition_to_json

        print(json.dumps(transition_to_json(transition)), flush=True)

    def end(self, show: Show) -> None:
        return


def _bill(show: Show) -> str:
    """What the hang cost, and what it would have cost by morning."""
    from watcher.cli.status import spoken

    gpus = len(show.fleet.nodes) * show.fleet.gpus
    opened = next((t for t in show.transitions if t.event == "opened"), None)
    if opened is None:
        return "No incident was opened."
    last = opened.incident.evidence.get("last_progress_at") or opened.at
    waited, price = opened.at - float(last), 2.5
    ended = next((t for t in show.transitions if t.event == "resolved" and t.incident.key == opened.incident.key), None)
    text = f"The page went out {spoken(waited)} after the last step."
    if ended is not None:
        lost = ended.at - float(last)
        text += f" Until the next step {spoken(lost)} passed: {gpus * lost / 3600:.1f} GPU-hours,"
        text += f" {gpus * lost / 3600 * price:.2f} USD at {price:.2f} USD a GPU-hour."
    return f"{text}\nUnnoticed for 11 hours, as has happened, it would have been {gpus * 11 * price:.0f} USD."


COMMAND = Command("demo", "the whole system on a simulated run, in under a minute", add_arguments, run, order=10)
