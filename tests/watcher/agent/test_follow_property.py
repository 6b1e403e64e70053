"""Whatever is done to a log, each whole line is read once, as long as it was there to be read."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from watcher.agent.follow import LogFollower
from watcher.clock import FakeClock
from watcher.config.logs import LogConfig, LogPatterns

PATTERNS = LogPatterns(step=r"step=(\d+);")
SHAPES = (
    "step={n};\n",
    "loss=1 step={n}; lr=2\r\n",
    "\x1b[1mé step={n}; ✓\n",
    "banner\n\nstep={n};" + "x" * 300 + "\n",
)


class World:
    """A run that writes, somebody who rotates, and an agent that reads and is restarted."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "logs/train.log"
        self.path.parent.mkdir()
        self.clock = FakeClock()
        self.written: dict[int, bool] = {}  # step -> it can be lost, as nobody could read it in time
        self.unread: set[int] = set()
        self.seen: Counter[int] = Counter()
        self.writer = self.path.open("ab", buffering=0)
        self.pending = b""
        self.pending_steps: list[tuple[int, int]] = []  # (bytes of pending up to its end, step)
        self.olds = 0
        self.known = False  # the agent has seen a line of the present file
        self.lines_in_file = 0
        self.start()

    def start(self) -> None:
        logs = [LogConfig(path=str(self.path), patterns=PATTERNS)]
        self.follower = LogFollower(logs, "n1", self.folder / "state.json", self.clock)

    def say(self, count: int, shape: str) -> None:
        for _ in range(count):
            step = len(self.written)
            self.written[step] = False
            self.pending += shape.format(n=step).encode()
            self.pending_steps.append((len(self.pending), step))

    def write(self, share: float) -> None:
        size = max(1, int(len(self.pending) * share))
        self.writer.write(self.pending[:size])
        self.pending = self.pending[size:]
        ended = [step for end, step in self.pending_steps if end <= size]
        self.pending_steps = [(end - size, step) for end, step in self.pending_steps if end > size]
        self.unread.update(ended)
        self.lines_in_file += len(ended)

    def poll(self) -> None:
        self.clock.advance(5)
        for event in self.follower.poll():
            if event.again:
                assert self.seen[event.event.step] == 1, "told again, but never before"
            elif event.event.event == "step" and event.event.step is not None:
                self.seen[event.event.step] += 1
        self.unread.clear()
        self.known = self.lines_in_file > 0

    def restart(self) -> None:
        """A new process knows a file again by its first line; one that was emptied has none."""
        self.follower.close()
        self.start()
        self.known = self.known and self.lines_in_file > 0

    def lose_the_unread(self) -> None:
        """Also a line whose first half goes away with the old content."""
        for step in self.unread:
            self.written[step] = True
        self.unread.clear()
        if self.pending_steps:
            self.written[self.pending_steps[0][1]] = True

    def truncate(self) -> None:
        self.lose_the_unread()
        self.lines_in_file = 0
        os.ftruncate(self.writer.fileno(), 0)

    def copy_and_truncate(self) -> None:
        shutil.copyfile(self.path, self.path.with_name(f"train.log.{len(os.listdir(self.path.parent))}"))
        self.truncate()

    def rename(self) -> None:
        """The writer keeps its descriptor until it reopens."""
        if not self.known:
            self.lose_the_unread()
        self.olds += 1
        self.path.rename(self.path.with_name(f"old.{self.olds}"))

    def reopen(self) -> None:
        if self.pending_steps:  # the other half of this line goes to another file
            self.written[self.pending_steps[0][1]] = True
        self.writer.close()
        self.writer = self.path.open("ab", buffering=0)
        self.known, self.lines_in_file = False, 0


def operations() -> st.SearchStrategy[list[tuple[str, int, str, float]]]:
    names = ("say", "write", "write", "poll", "poll", "truncate", "copy_and_truncate", "rotate", "late", "restart")
    one = st.tuples(st.sampled_from(names), st.integers(1, 30), st.sampled_from(SHAPES), st.floats(0.01, 1))
    return st.lists(one, max_size=40)


@settings(max_examples=150, deadline=None)
@given(operations())
def test_each_whole_line_is_read_exactly_once(script: list[tuple[str, int, str, float]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        world.poll()
        for name, count, shape, share in script:
            match name:
                case "say":
                    world.say(count, shape)
                case "write":
                    world.write(share)
                case "poll":
                    world.poll()
                case "truncate":
                    world.truncate()
                case "copy_and_truncate":
                    world.copy_and_truncate()
                case "rotate":
                    world.rename()
                    world.reopen()
                case "late":  # written to the old file after it lost its name, before the run reopens its log
                    opened = world.known
                    world.rename()
                    world.poll()
                    world.write(share)
                    if not opened:
                        world.lose_the_unread()
                    world.poll()
                    world.reopen()
                case "restart":
                    world.restart()
            assert not [step for step, times in world.seen.items() if times > 1], f"doubled after {name}"
        world.write(1)
        world.poll()
        world.poll()
        world.follower.close()
        world.writer.close()
        missing = {s for s, loses in world.written.items() if not loses} - set(world.seen)
        assert not missing
        assert max(world.seen.values(), default=0) <= 1
