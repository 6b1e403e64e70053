"""Untrusted text made fit for a page: no control characters, no lone surrogates, never longer than agreed."""

from __future__ import annotations

import re

# C0, C1, DEL, and what reorders or hides text on a screen (bidi controls, zero-width marks, line separators)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str, limit: int = 4_000) -> str:
    """Many lines stay many lines; `limit` counts characters of the answer."""
    text = text[: 4 * limit].replace("\r\n", "\n").replace("\r", "\n")
    text = _SURROGATE.sub("\ufffd", _CONTROL.sub("", _ANSI.sub("", text)))
    return cut(text, limit)


def one_line(text: str, limit: int = 1_000) -> str:
    return cut(" ".join(clean(text, 2 * limit).split()), limit)


def cut(text: str, limit: int, mark: str = "…") -> str:
    """The start of the text on a character boundary, with a mark where something is missing."""
    if len(text) <= limit:
        return text
    return text[: max(0, limit - len(mark))] + mark[:limit]
