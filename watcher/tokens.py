"""Tokens of nodes: one for all, or one for each node, derived from a master secret: it speaks for that node only.

A token file or master file may hold two lines while it is being changed: the first is used, both are accepted.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass

from alerts.secret import Secret, SecretError

MAX_VALID = 2
LEAST_MASTER_LETTERS = 32  # whoever has one node's token can try masters at leisure


def lines_of(secret: Secret) -> list[str]:
    """The valid values, the one in use first. Raises SecretError."""
    return [line.strip() for line in secret.reveal().splitlines() if line.strip()][:MAX_VALID]


def masters_of(secret: Secret) -> list[str]:
    """Raises SecretError, also where one could be guessed."""
    masters = lines_of(secret)
    if any(len(master) < LEAST_MASTER_LETTERS for master in masters):
        raise SecretError(
            f"the master secret has a line shorter than {LEAST_MASTER_LETTERS} letters: make one with "
            f"`head -c 32 /dev/urandom | base64`"
        )
    return masters


def node_token(master: str, node: str) -> str:
    """The token of one node: 43 letters that tell nothing of the master secret or of other nodes' tokens."""
    digest = hmac.new(master.encode(), f"runwatch node {node}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class NodeTokens:
    """`shared`: one token for all nodes; `master`: derives one for each."""

    shared: Secret | None = None
    master: Secret | None = None

    def for_node(self, node: str) -> list[str]:
        """Valid tokens of this node, the one to use first; none: no token is asked for. Raises SecretError."""
        if self.master is not None:
            return [node_token(line, node) for line in masters_of(self.master)]
        return lines_of(self.shared) if self.shared is not None else []

    def speaks_for(self, node: str, given: str) -> bool:
        """Compared in constant time. Raises SecretError."""
        return allowed(given, self.for_node(node))


def allowed(given: str, valid: list[str]) -> bool:
    """True where `given` is one of them; compared in constant time."""
    mine = given.encode("utf-8", "surrogateescape")
    found = [hmac.compare_digest(mine, one.encode()) for one in valid]  # all of them, whichever it is
    return any(found)
