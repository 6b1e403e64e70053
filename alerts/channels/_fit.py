"""Makes a JSON body fit a limit in bytes: the longest parts are cut first, and say how much of them is left."""

from __future__ import annotations

import json
from typing import Any

from alerts._text import cut


def encode(body: Any) -> bytes:
    """UTF-8 JSON; what JSON does not know becomes text."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=str).encode("utf-8", "replace")


def fit(details: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    """A copy whose JSON has at most `max_bytes`. A list that is cut ends in `... 125 of 2000 shown`."""
    fitted = dict(details)
    lengths = {key: len(value) for key, value in fitted.items() if isinstance(value, list)}
    sizes = {key: _size(key, value) for key, value in fitted.items()}
    while sum(sizes.values()) + 2 > max_bytes and fitted:
        longest = max(sizes, key=lambda key: sizes[key])
        value = _shorter(fitted[longest], lengths.get(longest, 0))
        if value is None:
            del fitted[longest], sizes[longest]
        else:
            fitted[longest] = value
            sizes[longest] = _size(longest, value)
    return fitted


def _size(key: str, value: Any) -> int:
    return len(encode(key)) + len(encode(value)) + 2  # the colon and the comma


def _shorter(value: Any, length: int) -> Any:
    """About half of it, or None where there is nothing left to halve."""
    if isinstance(value, list) and len(value) > 2:
        kept = value[: (len(value) - 1) // 2]
        return [*kept, f"... {len(kept)} of {length} shown"]
    if isinstance(value, str) and len(value) > 200:
        return cut(value, len(value) // 2, " … (cut)")
    if isinstance(value, dict) and value:
        return fit(value, len(encode(value)) // 2)
    return None
