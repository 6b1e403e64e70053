"""Network cards and InfiniBand ports from sysfs: bytes moved, ports that went down, how often they did."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MAX_PORTS = 256
IB_WORD_BYTES = 4  # port_xmit_data and port_rcv_data count words


@dataclass(frozen=True, slots=True)
class Links:
    """`down`: ports that were up since boot and are not now. One that never was may have no cable."""

    bytes_moved: int
    down: tuple[str, ...]
    flaps: dict[str, int]  # port -> times it went down since boot


def read_links(root: Path = Path("/")) -> Links:
    """Physical network cards and all InfiniBand ports under `root`/sys. Raises nothing."""
    moved, down = 0, []
    flaps: dict[str, int] = {}
    for card in _entries(root / "sys/class/net"):
        if not (card / "device").exists():  # loopback, bridges, tunnels: their bytes pass a real card too
            continue
        moved += _number(card / "statistics/rx_bytes") + _number(card / "statistics/tx_bytes")
        flaps[card.name] = _number(card / "carrier_down_count")
        if _word(card / "operstate") == "down" and _number(card / "carrier_up_count") > 0:
            down.append(card.name)
    for device in _entries(root / "sys/class/infiniband"):
        for port in _entries(device / "ports"):
            name = f"{device.name}/{port.name}"
            counters = port / "counters"
            if _word(port / "link_layer") != "Ethernet":  # else it is one of the network cards above, seen from below
                moved += IB_WORD_BYTES * (_number(counters / "port_rcv_data") + _number(counters / "port_xmit_data"))
            flaps[name] = _number(counters / "link_downed")
            if not _word(port / "state").endswith("ACTIVE") and flaps[name] > 0:
                down.append(name)
    return Links(moved, tuple(down), flaps)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())[:MAX_PORTS]
    except OSError:
        return []


def _word(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _number(path: Path) -> int:
    text = _word(path)
    return int(text) if text.isdigit() else 0
