"""Evidence and GPUs as lines of plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from alerts._duration import instant, spoken
from alerts._text import one_line
from alerts.facts import GpuBar

MAX_ENTRIES = 30
MAX_LISTED = 20
MAX_BARS = 32
_UNITS = {"watts": "W", "celsius": "°C", "mhz": "MHz", "bytes": "B", "percent": "%"}


# drawn by themselves: GPUs as bars, the end of the log as lines, where the run stands as its own block
_DRAWN = frozenset({"gpus", "log_tail", "phase", "attempt", "last_step", "total_steps", "currency", "odd"})


def evidence_lines(evidence: Mapping[str, Any]) -> list[str]:
    """One line an entry, lists with how many of how many are shown."""
    return [f"  {label}: {value}" if label else f"  {value}" for label, value in evidence_rows(evidence)]


def evidence_rows(evidence: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label, value) of each entry; an empty label where the value says how many are left out."""
    evidence = {key: value for key, value in evidence.items() if key not in _DRAWN}
    rows = [(_label(key), _value(str(key), value)) for key, value in list(evidence.items())[:MAX_ENTRIES]]
    if len(evidence) > MAX_ENTRIES:
        rows.append(("", f"... {MAX_ENTRIES} of {len(evidence)} entries shown"))
    return rows


def _label(key: object) -> str:
    return one_line(str(key), 80).replace("_", " ")


def _value(key: str, value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _number(key, float(value))
    if isinstance(value, Mapping):
        shown = [f"{_label(name)} {_value(str(name), item)}" for name, item in list(value.items())[:MAX_LISTED]]
        return _listed(shown, len(value))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _listed([_value(key, item) for item in value[:MAX_LISTED]], len(value))
    return one_line(str(value), 500)


def _number(key: str, value: float) -> str:
    if key.endswith("_at") and value > 1e9:
        return instant(value)
    if key.endswith("_seconds"):
        return spoken(value) if abs(value) >= 60 else f"{value:.4g} s"
    if "ratio" in key.split("_"):
        return f"{100 * value:.3g} %"
    unit = next((sign for word, sign in _UNITS.items() if word in key.split("_")), "")
    shown = f"{value:.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"
    return f"{shown} {unit}".rstrip()


def _listed(shown: list[str], total: int) -> str:
    text = ", ".join(shown)
    return f"{text}, ... ({len(shown)} of {total} shown)" if total > len(shown) else text


def bar_lines(bars: Sequence[GpuBar], odd: object = None) -> list[str]:
    """`n3 gpu 0  [##........] 151 of 700 W  100 % busy`; the bar is power against the limit.

    `odd` is the evidence about who differs, {"node": ..., "gpu_index": ...}: marked, and shown however many there are.
    """
    shown = [bar for bar in bars if _differs(bar, odd)][:MAX_BARS]
    room = MAX_BARS - len(shown)
    shown += [bar for bar in bars if not _differs(bar, odd)][:room]
    shown.sort(key=bars.index)
    width = min(60, max((len(bar.node) for bar in shown), default=0))
    lines = [f"  {_bar(bar, width)}{'  <- differs' if _differs(bar, odd) else ''}" for bar in shown]
    if len(bars) > MAX_BARS:
        lines.append(f"  ... {MAX_BARS} of {len(bars)} GPUs shown")
    return lines


def _bar(bar: GpuBar, width: int) -> str:
    power, limit, busy = bar.power_watts, bar.power_limit_watts, bar.utilization_ratio
    filled = round(10 * min(1.0, max(0.0, power / limit))) if power is not None and limit else 0
    watts = "power not known" if power is None else f"{power:.0f} W" if not limit else f"{power:.0f} of {limit:.0f} W"
    load = "" if busy is None else f"  {100 * busy:.0f} % busy"
    place = f"{one_line(bar.node, 60):<{width}} gpu {bar.index:<2}"
    return f"{place} [{'#' * filled}{'.' * (10 - filled)}] {watts}{load}"


def _differs(bar: GpuBar, odd: object) -> bool:
    if not isinstance(odd, Mapping) or odd.get("node") != bar.node:
        return False
    return odd.get("gpu_index") in (None, bar.index)
