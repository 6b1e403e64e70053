"""Which file is this? A name that outlives renames, tells inode reuse, and is the same on all nodes that share it."""

from __future__ import annotations

import functools
import hashlib
import os
import re
from pathlib import Path

HEAD_BYTES = 256
_SHARED = re.compile(r"nfs|lustre|gpfs|ceph|beegfs|wekafs|glusterfs|panfs|orangefs|pvfs|9p|afs|cifs|smb")
_MOUNTS = Path("/proc/self/mountinfo")


def read_head(fd: int) -> bytes:
    """The first line of a file, at most HEAD_BYTES of it: enough to tell it from another. Empty until it has ended."""
    data = os.pread(fd, HEAD_BYTES, 0)
    ends = [end for end in (data.find(b"\n", 1), data.find(b"\r", 1)) if end > 0]
    if ends:
        return data[: min(ends) + 1]
    return data if len(data) == HEAD_BYTES else b""


def why_not_text(fd: int) -> str | None:
    """Why the bytes cannot be lines of a log, in words; None where they can."""
    start = os.pread(fd, 6, 0)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) and 0 in start:
        return "the file is UTF-16: have the run write UTF-8"
    if start.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ", b"PK\x03\x04")):
        return "the file is compressed: only growing text can be followed"
    return None


def place_of(device: int, node: str, mounts: Path = _MOUNTS) -> str:
    """Where a device's files live: the server's own name for a shared file system, else the node and the device.

    A device number of a network file system differs from node to node; that of a local disk may be alike on two.
    """
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        for line in mounts.read_text("utf-8", "replace").splitlines():
            left, _, right = line.partition(" - ")
            if left.split(" ")[2:3] == [wanted]:
                kind, source = right.split(" ")[:2]
                return source if _SHARED.search(kind) else f"{node}/{wanted}"
    except (OSError, ValueError):
        pass
    return f"{node}/{wanted}"


@functools.lru_cache(maxsize=1024)  # asked with every event
def file_id(place: str, inode: int, head: bytes) -> str:
    """`place:inode:head`, the outer two as short hashes; the inode is text (it may not fit a signed number)."""
    return f"{_short(place.encode())}:{inode}:{_short(head) if head else '-'}"


def _short(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=5).hexdigest()
