"""A listening socket, or one readable line why there is none."""

from __future__ import annotations

import errno
import socket

from watcher.config.listen import Listen


class ListenError(Exception):
    """The address cannot be listened on."""


def bind(listen: Listen) -> socket.socket:
    """Raises ListenError."""
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((listen.host, listen.port))
        sock.listen(128)
    except OSError as error:
        sock.close()
        advice = "; is another one running there?" if error.errno == errno.EADDRINUSE else ""
        raise ListenError(f"cannot listen on {listen}: {error.strerror}{advice}") from None
    return sock
