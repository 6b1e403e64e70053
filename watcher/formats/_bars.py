"""Progress bars as tqdm draws them: `desc:  19%|#9   | 18/97 [01:50<08:31,  6.39s/it, loss=2.5]`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from watcher.formats._numbers import clock_seconds

_BAR = re.compile(
    r"(?P<percent>\d{1,3}(?:\.\d+)?)%\|[^|]{0,300}\|\s{0,12}(?P<done>[\d.]{1,15}[kMGT]?)/(?P<total>[\d.]{1,15}[kMGT]?|\?)"
    r"(?:\s{1,3}(?P<unit0>[A-Za-z]{1,12}))?(?:\s?\[(?P<elapsed>[\d:.]{1,15})<(?P<left>[^,\]]{0,40})"
    r"(?:,\s{0,3}(?P<rate>[\d.?]{1,15}[kMG]?)\s?(?P<unit>[^\s,\]\[/]{0,16}/[^\s,\]\[]{1,16}))?(?P<tail>[^\[\r\n]{0,4000})?)?"
)
_OPEN = re.compile(
    r"(?P<done>\d{1,12})(?P<unit0>it|step|steps|batch)? \[(?P<elapsed>\d[\d:]{3,12}),\s{0,3}"
    r"(?P<rate>[\d.?]{1,15})\s?(?P<unit>[^\s,\]\[/]{0,16}/[^\s,\]\[]{1,16})(?P<tail>[^\[\r\n]{0,4000})?"
)
_POSTFIX = re.compile(r"([A-Za-z_][\w./ -]{0,60}?)\s{0,2}[=:]\s{0,2}([-+]?[\d.]+(?:[eE][-+]?\d+)?|nan|inf)")


@dataclass(frozen=True, slots=True)
class Bar:
    """One state of a bar. `seconds_per` is set for `s/it`, `per_second` for `it/s`; `unit` is what it counts."""

    description: str
    done: int
    total: int | None
    unit: str
    seconds_per: float | None
    per_second: float | None
    elapsed_seconds: float | None
    postfix: dict[str, str]


def find_bar(text: str) -> Bar | None:
    """The last bar state in a text without `\\r`, or None."""
    match = _BAR.search(text) if "%|" in text else None
    if match is None:
        match = _OPEN.search(text) if "[" in text and "/" in text else None
        if match is None:
            return None
    found = match.groupdict()
    done, total = _count(found["done"]), _count(found.get("total"))
    if done is None:
        return None
    unit, seconds_per, per_second = (found.get("unit0") or "").strip(), None, None
    if found["unit"] and found["rate"] and "?" not in found["rate"]:
        upper, lower = found["unit"].split("/", 1)
        value = _rate(found["rate"])
        if upper == "s":
            seconds_per, unit = value, lower
        else:
            per_second, unit = value, upper
    elif found["unit"]:
        upper, lower = found["unit"].split("/", 1)
        unit = lower if upper == "s" else upper
    elapsed = clock_seconds(found["elapsed"]) if found["elapsed"] else None
    postfix = {m[1].strip(): m[2] for m in _POSTFIX.finditer(found.get("tail") or "")}
    description = text[: match.start()].strip().rstrip(":").strip()
    return Bar(description[-200:], done, total, unit or "it", seconds_per, per_second, elapsed, postfix)


def _count(text: str | None) -> int | None:
    if not text or text == "?":
        return None
    factor = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.get(text[-1], 0.0)
    try:
        return round(float(text[:-1]) * factor) if factor else int(float(text))
    except (ValueError, OverflowError):
        return None


def _rate(text: str) -> float | None:
    factor = {"k": 1e3, "M": 1e6, "G": 1e9}.get(text[-1], 0.0)
    try:
        return float(text[:-1]) * factor if factor else float(text)
    except ValueError:
        return None
