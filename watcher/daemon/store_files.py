"""The database as a file: whether its place is fit for it, and what to do with one that is broken."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "lustre", "beegfs", "fuse.sshfs", "ceph", "gpfs", "9p"}
)
SIBLINGS = ("", "-wal", "-shm")


class InUse(OSError):
    """Another daemon works on the file; one readable line."""


@contextlib.contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Two daemons on one file would write over each other's pages. The end of a process, of any kind, lets go.

    Raises InUse, or OSError where the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{path}.lock", "ab") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(
                f"database {path}: another runwatch daemon works on it; a second one needs a file of its own"
            ) from None
        except OSError:
            pass  # this file system has no locks: nothing can be told
        yield


def create_private(path: Path) -> None:
    """It holds what signs links and logins. What SQLite puts beside it takes its mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):  # whoever opens it next says what is wrong
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def move_aside(path: Path, stamp: int) -> Path:
    """Keeps a broken database for a person to look at; answers its new name."""
    target = path.with_name(f"{path.name}.broken-{stamp}")
    for suffix in SIBLINGS:
        source = Path(f"{path}{suffix}")
        if source.exists():
            source.rename(f"{target}{suffix}")
    return target


def file_system_of(path: Path, mounts: str = "/proc/self/mountinfo") -> str:
    """The type of the file system a path lies on, e.g. `ext4`; empty where that cannot be told."""
    best, kind = "", ""
    place = os.path.realpath(path)
    try:
        lines = Path(mounts).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        mount = fields[4].replace("\\040", " ")
        if (place == mount or place.startswith(mount.rstrip("/") + "/")) and len(mount) >= len(best):
            best, kind = mount, after.split()[0]
    return kind
