"""Steps over the lines of a block that hold nothing, without looking at each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import re2

MAX_WASTED = 100  # lines of a block that were named for nothing; then every line is read
# a pattern with one of these may match a line by itself and not in the middle of a block
_LINE_ENDS = ("^", "$", r"\A", r"\z", r"\Z", r"\B", r"\C", r"\Q")
# colours to be taken off, and letters of several bytes, of which a pattern counts each as one
_STRANGE = rb"[\x00-\x08\x0e-\x1f\x80-\xff]"


def bytes_search(expression: bytes, *, case_sensitive: bool) -> Any:
    """A compiled search through raw bytes; no line is ever bad UTF-8 for it."""
    options = re2.Options()
    options.case_sensitive = case_sensitive
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    options.log_errors = False
    return re2.compile(expression, options)


def patterns_search(texts: Sequence[str]) -> Any:
    """One search for all lines that patterns of users may match, and some more; None where that cannot be told."""
    if any(not text.isascii() or any(sign in text.replace("[^", "[") for sign in _LINE_ENDS) for text in texts):
        return None
    try:
        return bytes_search(b"|".join([_STRANGE, *(b"(?:%b)" % text.encode() for text in texts)]), case_sensitive=True)
    except re2.error:  # each is small enough, all together are not
        return None


class Skimmer:
    """Over one block: where the next line stands that one of the searches finds something in."""

    def __init__(self, block: bytes, searches: Sequence[Any]) -> None:
        self._block, self._searches = block, searches
        self._next = [-1] * len(searches)
        self._wasted = 0

    def skip(self, position: int) -> int:
        """From the start of a line to the start of the next one that may hold something; the block's end if none."""
        if self._wasted > MAX_WASTED and len(self._searches) > 1:
            return position
        for place, search in enumerate(self._searches):
            if self._next[place] < position:
                match = search.search(self._block, position)
                self._next[place] = len(self._block) if match is None else match.start()
        found = min(self._next)
        if found == len(self._block):
            return found
        return self._block.rfind(b"\n", position, found) + 1 or position

    def wasted(self) -> None:
        """The last line held nothing. A pattern of a user may span lines and look far ahead for each of them."""
        self._wasted += 1
