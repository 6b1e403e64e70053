from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from alerts.incidents import Hysteresis
from alerts.notification import Retry
from detectors.verdict import Severity, Unknown
from tests.alerts.delivery_samples import CHAT, PAGER, House, Scripted
from tests.alerts.incident_samples import clear, finding, fires, gpu_finding, judged
from watcher.clock import FakeClock
from watcher.daemon.store import Store, StoreError
from watcher.daemon.store_files import InUse, alone_with, file_system_of


def _house(tmp_path: Path, **rest: object) -> tuple[House, Scripted, FakeClock]:
    clock = FakeClock()
    pager = Scripted(clock)
    return House(tmp_path, clock, {"oncall": (pager, PAGER)}, **rest), pager, clock  # type: ignore[arg-type]


def test_what_is_open_survives_a_kill_and_is_neither_told_again_nor_forgotten(tmp_path: Path) -> None:
    house, pager, clock = _house(tmp_path)
    house.tick(fires(finding()))
    for _ in range(3):
        house.kill()
        clock.advance(60)
        house.start()
        house.tick(fires(finding()))
    assert pager.kinds == ["opened"]
    house.kill()
    clock.advance(60)
    house.start()
    house.run(60, [clear()])
    assert pager.kinds == ["opened", "resolved"]
    assert {one.dedup_key for _, one in pager.seen} == {"tr7/stall"}


@pytest.mark.parametrize("moment", ["after the commit", "after the claim", "after the send"])
def test_a_kill_at_any_moment_loses_no_page_and_repeats_it_only_under_its_key(tmp_path: Path, moment: str) -> None:
    house, pager, _ = _house(tmp_path)
    house.tick(fires(finding()), deliver=False)
    if moment != "after the commit":
        delivery = house.outbox.take("oncall")
        assert delivery is not None
        if moment == "after the send":
            pager.send(delivery.notification)
    house.kill()
    house.start()
    house.tick(fires(finding()))
    assert pager.kinds == ["opened"] * (2 if moment == "after the send" else 1)
    assert {one.dedup_key for _, one in pager.seen} == {"tr7/stall"}
    assert house.store.load().deliveries == []


def test_restarts_repeat_nothing_miss_nothing_and_keep_pending_time(tmp_path: Path) -> None:
    """Four conditions around two kills and a clean stop: open, begun while down, pending for 900 s, over while down."""
    slow = "gpu_attention"
    house, pager, clock = _house(tmp_path, hysteresis=Hysteresis(open_after_seconds={slow: 900}), group_wait_seconds=0)
    start = clock.now
    conditions = [("n3", 120, 700), ("n4", 660, 9999), ("n6", 610, 650)]
    down = [(300, 305), (420, 425), (600, 780)]
    running = True
    for seconds in range(0, 1800, 5):
        clock.now = start + seconds
        is_down = any(begin <= seconds < end for begin, end in down)
        if is_down and running:
            house.kill()
        elif not is_down and not running:
            house.start()
        running = not is_down
        if is_down or seconds % 15:
            continue
        found = [gpu_finding(node) for node, since, until in conditions if since <= seconds < until]
        lost = fires(*found) if found else clear("gpu_lost", "gpu_lost")
        warm = gpu_finding("n5", severity=Severity.WARNING, family=slow)
        house.tick(lost, fires(warm) if seconds >= 200 else clear("gpu_lost", slow))
    told = [(one.incident.subject.node, one.kind, at - start) for at, one in pager.seen]
    ends = [("opened", False), ("resolved", True)]
    assert [(kind, 780 <= at <= 860) for node, kind, at in told if node == "n3"] == ends
    assert [(kind, 780 <= at <= 860) for node, kind, at in told if node == "n4"] == [("opened", True)]
    assert [(kind, 1100 <= at <= 1310) for node, kind, at in told if node == "n5"] == [("opened", True)]
    assert [one for one in told if one[0] == "n6"] == []


def test_a_full_disk_stops_neither_detecting_nor_paging_and_is_caught_up_on(tmp_path: Path) -> None:
    house, pager, clock = _house(tmp_path)
    house.tick(clear())
    pages = house.store._db.execute("PRAGMA page_count").fetchone()[0]
    house.store._db.execute(f"PRAGMA max_page_count = {pages}")
    big = "x" * 3000
    house.tick(fires(*(finding(f"kind{i}", family="", evidence={"text": big}) for i in range(5))))
    assert len(pager.seen) == 5
    assert house.desk.store_error is not None
    assert "free space on its disk" in house.desk.store_error
    assert "\n" not in house.desk.store_error
    clock.advance(10)
    house.tick(fires(finding()))
    assert {"store_failed", "low_power_deadlock"} <= {one.incident.signature for _, one in pager.seen}
    house.store._db.execute("PRAGMA max_page_count = 100000")
    clock.advance(10)
    house.tick(fires(finding()))
    assert house.desk.store_error is None
    assert len(house.store.deliveries()) == len(pager.seen)
    assert {row["event"] for row in house.store.transitions("tr7/stall")} == {"opened"}
    house.kill()
    house.start()
    before = len(pager.seen)
    house.tick(fires(finding()))
    assert len(pager.seen) == before


def test_a_locked_database_is_one_line_and_pages_go_out(tmp_path: Path) -> None:
    house, pager, _ = _house(tmp_path)
    other = sqlite3.connect(tmp_path / "runwatch.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    house.tick(fires(finding()))
    assert pager.kinds == ["opened"]
    assert "another process holds it" in (house.desk.store_error or "")
    other.execute("ROLLBACK")
    other.close()
    house.tick(fires(finding()))
    assert house.desk.store_error is None


def test_a_broken_file_is_kept_aside_and_a_new_one_begun(tmp_path: Path) -> None:
    path = tmp_path / "runwatch.db"
    path.write_bytes(b"this is no database, but it was one" * 100)
    store = Store(path, now=1_700_000_000)
    assert "is kept as" in store.notes[-1]
    assert (tmp_path / "runwatch.db.broken-1700000000").exists()
    assert store.load().incidents == {}
    store.close()


def test_a_row_that_cannot_be_read_costs_only_itself(tmp_path: Path) -> None:
    house, _, _ = _house(tmp_path)
    house.tick(fires(finding()), fires(gpu_finding()))
    house.store._db.execute("UPDATE incidents SET body = '{' WHERE key = 'tr7/stall'")
    loaded = house.store.load()
    assert list(loaded.incidents) == ["n3/gpu_lost/GPU-3"]
    assert "tr7/stall cannot be read" in loaded.notes[0]


def test_a_database_of_the_first_version_is_taken_up_with_what_is_open_in_it(tmp_path: Path) -> None:
    house, pager, _ = _house(tmp_path)
    house.tick(fires(finding()))
    house.kill()
    raw = sqlite3.connect(tmp_path / "runwatch.db", isolation_level=None)
    raw.execute("DROP INDEX outbox_key")
    raw.execute("ALTER TABLE accepted DROP COLUMN receipt")
    raw.execute("UPDATE incidents SET told = json_remove(told, '$.oncall.faces')")
    raw.execute("PRAGMA user_version = 1")
    raw.close()
    house.start()
    house.run(60, [fires(finding())])
    house.run(60, [clear()])
    assert pager.kinds == ["opened", "resolved"]


def test_a_newer_database_is_refused_in_words(tmp_path: Path) -> None:
    Store(tmp_path / "runwatch.db").close()
    raw = sqlite3.connect(tmp_path / "runwatch.db")
    raw.execute("PRAGMA user_version = 99")
    raw.close()
    with pytest.raises(StoreError, match="written by a newer runwatch"):
        Store(tmp_path / "runwatch.db")


def test_a_folder_that_cannot_be_written_is_said_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="may write there"):
        Store(tmp_path / "file" / "runwatch.db")


def test_state_is_kept_by_name_and_old_history_goes(tmp_path: Path) -> None:
    house, _, clock = _house(tmp_path)
    house.store.put_state("ledger", b"\x00\x01", clock.now)
    house.tick(fires(finding()))
    house.run(2000, [clear()])
    assert [one.state for one in house.store.history("tr7/stall")] == ["resolved"]
    house.store.prune(clock.now + 91 * 86_400)
    assert house.store.history() == []
    assert house.store.deliveries() == []
    assert house.store.get_state("ledger") == b"\x00\x01"
    assert house.store.get_state("nothing") is None


def test_what_was_sent_about_an_incident_is_found_under_each_of_its_keys_and_no_other(tmp_path: Path) -> None:
    house, _, _ = _house(tmp_path)
    lost = [gpu_finding(node, severity=Severity.WARNING) for node in ("n1", "n2", "n3", "n4")]
    house.run(60, [fires(*lost), fires(finding())])
    house.run(60, [fires(lost[0], gpu_finding("n2"), *lost[2:]), clear()])
    house.run(4000, [fires(*lost), clear()])
    house.run(60, [fires(finding())])
    told = {
        key: [(one.notification.kind, one.dedup_key.rpartition("/")[2]) for one in house.store.told_of(found)]
        for key in ("n2/gpu_lost/GPU-3", "tr7/stall")
        for found in house.store.history(key, 1)
    }
    assert [kind for kind, _ in told["n2/gpu_lost/GPU-3"]] == ["escalated", "opened"]
    assert told["n2/gpu_lost/GPU-3"][0][1] == "critical"
    assert told["tr7/stall"] == [("opened", "stall")]


def test_a_page_that_another_process_sent_is_not_sent_again(tmp_path: Path) -> None:
    house, pager, _ = _house(tmp_path)
    house.tick(fires(finding()), deliver=False)
    house.store._db.execute("UPDATE outbox SET state = 'claimed', owner = 'somebody else'")
    house.deliver()
    assert pager.seen == []


def test_a_fallback_carries_the_page_and_hears_of_the_end(tmp_path: Path) -> None:
    clock = FakeClock()
    pager, chat = Scripted(clock), Scripted(clock)
    pager.answer = lambda notification: Retry("HTTP 503")
    house = House(
        tmp_path, clock, {"oncall": (pager, PAGER), "spare": (chat, CHAT)}, fallbacks={"oncall": "spare"},
        routes=(),
    )  # fmt: skip
    from alerts.policy import Route

    house.kill()
    house.policy = type(house.policy)(channels=house.policy.channels, routes=(Route(to=("oncall",)),))
    house.start()
    house.run(600, [fires(finding())])
    stall = [one.kind for _, one in chat.seen if one.incident.family == "stall"]
    assert stall == ["opened"]
    house.kill()
    house.start()
    house.run(120, [clear()])
    stall = [one.kind for _, one in chat.seen if one.incident.family == "stall"]
    assert stall == ["opened", "resolved"]


def test_unknown_after_a_restart_resolves_nothing(tmp_path: Path) -> None:
    house, pager, clock = _house(tmp_path)
    house.tick(fires(finding()))
    house.kill()
    clock.advance(86_400)
    house.start()
    house.run(600, [judged(Unknown("agent silent"))])
    assert pager.kinds == ["opened"]


@pytest.mark.parametrize(
    ("place", "kind"), [("/data/run/x", "nfs4"), ("/data2/x", "ext4"), ("/with space/x", "xfs"), ("/", "ext4")]
)
def test_the_file_system_below_a_path_is_told(tmp_path: Path, place: str, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 0:5 / /data rw shared:1 - nfs4 server:/x rw\n"
        "24 22 8:2 / /with\\040space rw - xfs /dev/sdb rw\nbroken line\n"
    )
    assert file_system_of(Path(place), str(mounts)) == kind


CHILD = """
import sys
from pathlib import Path
from tests.alerts.delivery_samples import PAGER, House
from tests.alerts.incident_samples import clear, finding, fires
from alerts.notification import Sent
from watcher.clock import FakeClock
folder, begin = Path(sys.argv[1]), float(sys.argv[2])
class Pager:
    def send(self, notification, minimal=False):
        with (folder / "pager").open("a") as file:
            file.write(f"{notification.action} {notification.dedup_key}\\n")
        return Sent()
clock = FakeClock(begin)
house = House(folder, clock, {"oncall": (Pager(), PAGER)})
print("up", flush=True)
for number in range(100000):
    clock.advance(10)
    at = int(clock.now) // 1000
    house.tick(fires(finding()) if at % 2 else clear())
    (folder / "now").write_text(str(clock.now))
"""


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _poll(condition: Callable[[], bool]) -> None:
    pause, tries = threading.Event(), 0
    while not condition() and tries < 5_000:
        pause.wait(0.002)
        tries += 1


@pytest.mark.slow
def test_a_process_killed_again_and_again_keeps_the_pager_in_order(tmp_path: Path) -> None:
    """SIGKILL at moments nobody chose: every end follows its beginning, and nothing that is open is lost."""
    (tmp_path / "now").write_text("1700000000")
    root = Path(__file__).resolve().parents[3]
    rounds = int(os.environ.get("RUNWATCH_KILLS", "8"))
    for number in range(rounds):
        begin = (tmp_path / "now").read_text() or "1700000000"
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path), begin], cwd=root, stdout=subprocess.PIPE)
        assert child.stdout is not None
        with child:
            child.stdout.readline()
            seen = _size(tmp_path / "pager")
            wanted = seen + 20 * (number % 4)
            _poll(lambda size=wanted: _size(tmp_path / "pager") >= size)
            child.send_signal(signal.SIGKILL)
    open_now = None
    for line in (tmp_path / "pager").read_text().splitlines():
        action, key = line.split()
        assert key == "tr7/stall"
        assert action == "trigger" or open_now is not None
        open_now = action == "trigger"
    store = Store(tmp_path / "runwatch.db")
    loaded = store.load()
    is_open = any(one.state == "open" for one in loaded.incidents.values())
    if not loaded.deliveries:
        assert is_open == open_now
    store.close()


def test_a_second_daemon_on_the_same_file_is_told_so_and_the_first_lets_go_at_its_end(tmp_path: Path) -> None:
    place = tmp_path / "new folder" / "runwatch.db"
    with alone_with(place), pytest.raises(InUse, match="another runwatch daemon works on it"), alone_with(place):
        pass
    with alone_with(place):
        pass


def test_nobody_else_reads_what_signs_links(tmp_path: Path) -> None:
    store = Store(tmp_path / "runwatch.db")
    store.put_state("link_key", b"secret")
    modes = {path.name: path.stat().st_mode & 0o077 for path in tmp_path.iterdir()}
    store.close()
    assert modes == {"runwatch.db": 0, "runwatch.db-wal": 0, "runwatch.db-shm": 0}
