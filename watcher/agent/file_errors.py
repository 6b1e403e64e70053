"""What the file system refused, in words for the person who can change it."""

from __future__ import annotations

import errno

_WORDS = {
    errno.EACCES: "permission denied: let the agent's user read it",
    errno.EPERM: "permission denied: let the agent's user read it",
    errno.ESTALE: "stale file handle: the file server lost or replaced the file; it is opened again",
    errno.EIO: "input/output error: look at the disk or the file server",
    errno.ELOOP: "its links go round in a circle",
    errno.EMFILE: "the agent has too many files open: raise its limit or follow fewer logs",
    errno.ENFILE: "the machine has too many files open",
}


def in_words(error: OSError) -> str:
    if error.errno is None:
        return str(error)
    return _WORDS.get(error.errno, error.strerror or str(error))
