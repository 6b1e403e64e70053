"""Patterns that users write: compiled for an engine whose time is linear in the line, whatever the pattern.

It cannot look around or refer back; the error says so in words and says what to write instead.
"""

from __future__ import annotations

from typing import Any, Protocol

import re2

MAX_PATTERN = 2_000  # characters
MAX_MEMORY_BYTES = 8 << 20  # for one compiled pattern and its states

_CANNOT = (
    ("(?=", "look-ahead `(?=...)`", "match the text itself and put what you want into a named group"),
    ("(?!", "negative look-ahead `(?!...)`", "write what the line does hold instead of what it does not"),
    ("(?<=", "look-behind `(?<=...)`", "match the text itself and put what you want into a named group"),
    ("(?<!", "negative look-behind `(?<!...)`", "write what stands in front, or `(?:^|[^x])`"),
    ("(?>", "atomic groups `(?>...)`", "`(?:...)` is enough, nothing backtracks here"),
    ("(?(", "conditions `(?(1)...)`", "write two patterns with `|` between them"),
    ("(?P=", "back references `(?P=name)`", "repeat the pattern of the group"),
)
_MEANING = {
    "invalid escape sequence": "back references and this escape are not known here",
    "invalid repetition size": "a count in `{}` may be at most 1000",
    "missing )": "a `(` is not closed",
    "unexpected )": "a `)` has no `(`",
    "missing ]": "a `[` is not closed",
    "bad repetition operator": "two repetitions follow each other; possessive ones like `*+` are not needed here",
    "no argument for repetition operator": "a repetition has nothing in front of it",
    "pattern too large": "it is too large; make counted repetitions like `{500}` smaller",
    "invalid character class range": "an unknown class, or a range with its ends exchanged",
    "trailing \\": "it ends with a lone `\\`",
    "invalid named capture group": "a group name must be letters, digits and `_`, and not used twice",
}


class PatternError(ValueError):
    """Why a pattern cannot be used, for the person who wrote it."""


class Pattern(Protocol):
    """What is used of a compiled pattern."""

    @property
    def groups(self) -> int: ...

    @property
    def groupindex(self) -> dict[str, int]: ...

    def search(self, text: str) -> Any: ...


def compile_pattern(text: str) -> Pattern:
    """Raises PatternError. The result is searched for anywhere in a line."""
    if not text:
        raise PatternError("the pattern is empty and would match every line")
    if len(text) > MAX_PATTERN:
        raise PatternError(f"the pattern has {len(text)} characters; at most {MAX_PATTERN} are allowed")
    for sign, name, instead in _CANNOT:
        if _stands_in(text, sign):
            raise PatternError(f"{name} cannot be used, it can take time without limit: {instead}")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY_BYTES
    try:
        compiled: Pattern = re2.compile(text, options)
    except re2.error as error:
        raise PatternError(_explain(error)) from None
    if compiled.search("") is not None:
        raise PatternError("the pattern also matches nothing at all, so it would match every line")
    return compiled


def _stands_in(text: str, sign: str) -> bool:
    """Whether `sign` stands in a pattern, not as an escaped bracket."""
    at = text.find(sign)
    while at >= 0:
        backslashes = len(text[:at]) - len(text[:at].rstrip("\\"))
        if backslashes % 2 == 0:
            return True
        at = text.find(sign, at + 1)
    return False


def _explain(error: Exception) -> str:
    raw = error.args[0] if error.args else "not a regular expression"
    said = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
    kind, _, where = said.partition(": ")
    meaning = _MEANING.get(kind, kind)
    return f"{meaning} (at `{where[:80]}`)" if where else meaning
