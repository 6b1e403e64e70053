"""`runwatch node-token NODE...`: the token of each node, for agent.token_file on that node."""

from __future__ import annotations

import argparse
from pathlib import Path

from watcher.cli._command import Command, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("nodes", metavar="LIST", help="hostlist, as gpu-node-[01-16]")
    parser.add_argument("--master-file", type=Path, required=True, metavar="FILE", help="daemon.agents.master_file")
    parser.add_argument("--directory", type=Path, metavar="DIR", help="write DIR/NODE.token, readable by you alone")


def run(args: argparse.Namespace) -> int:
    import os

    from ClusterShell.NodeSet import NodeSet, NodeSetException

    from alerts.secret import SecretError, secret_file
    from watcher.tokens import masters_of, node_token

    try:
        nodes = [str(node) for node in NodeSet(args.nodes)]
        master = masters_of(secret_file(args.master_file))[0]
    except (NodeSetException, SecretError) as error:
        raise UsageError(str(error)) from error
    for node in nodes:
        token = node_token(master, node)
        if args.directory is None:
            print(f"{node} {token}" if len(nodes) > 1 else token)
            continue
        path = args.directory / f"{node}.token"
        try:
            args.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(token + "\n")
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
    return 0


COMMAND = Command("node-token", "the token that speaks for one node only", add_arguments, run, order=32)
