"""Where the agent of each node is asked, for the nodes that the runs have at this moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from watcher.config.daemon import AgentsSection


class Addresses(Mapping[str, str]):
    """node -> http[s]://HOST:PORT for every node whose agent is asked. `nodes()`: those of all runs now."""

    def __init__(self, agents: AgentsSection, nodes: Callable[[], Sequence[str]]) -> None:
        self._agents, self._nodes = agents, nodes

    def __getitem__(self, node: str) -> str:
        return address_of(self._agents, node)

    def __iter__(self) -> Iterator[str]:
        return iter([node for node in dict.fromkeys(self._nodes()) if self._agents.asks(node)])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def address_of(agents: AgentsSection, node: str) -> str:
    usual = "https" if agents.tls or agents.ca_file is not None else "http"
    place = agents.addresses.get(node, node)
    scheme, sign, rest = place.partition("://")
    host = rest if sign else place
    has_port = host.rpartition(":")[2].isdigit() and (host.count(":") == 1 or "]:" in host)
    return f"{scheme if sign else usual}://{host if has_port else f'{host}:{agents.port}'}"
