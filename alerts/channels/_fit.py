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
    while len(encode(fitted)) > max_bytes and fitted:
        longest = max(fitted, key=lambda key: len(encode(fitted[key])))
        value = fitted[longest]
        if isinstance(value, list) and len(value) > 2:
            kept = value[: (len(value) - 1) // 2]
            fitted[longest] = [*kept, f"... {len(kept)} of {lengths[longest]} shown"]
        elif isinstance(value, str) and len(value) > 200:
            fitted[longest] = cut(value, len(value) // 2, " … (cut)")
        elif isinstance(value, dict) and value:
            fitted[longest] = fit(value, len(encode(value)) // 2)
        else:
            del fitted[longest]
    return fitted
