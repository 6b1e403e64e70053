"""The database as a file: whether its place is fit for it, and what to do with one that is broken."""

from __future__ import annotations

import os
from pathlib import Path

NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "lustre", "beegfs", "fuse.sshfs", "ceph", "gpfs", "9p"}
)
SIBLINGS = ("", "-wal", "-shm")


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
