"""Python tracebacks of one writer, line by line: one error for each, however many exceptions it is chained of."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

HEADER = "Traceback (most recent call last)"
_FRAME = re.compile(r'\s{1,200}File "[^"\n]{1,500}", line \d+')
_CHAIN = re.compile(r"\s{0,20}(?:During handling of the above exception|The above exception was the direct cause)")
_FINAL = re.compile(r"([A-Za-z_]\w{0,80}(?:\.\w{1,80}){0,8})(?:: |:?\s*$)")
_EXCEPTION = re.compile(
    r"(?:Error|Exception|Exit|Interrupt|Empty|Full|Timeout|Refused|StopIteration|Failure|Interrupted)$|\.[A-Z]\w+$"
)
# a header after such words is a caught exception, printed on purpose
_CAUGHT = re.compile(
    r"failed with:|ignor|warning|(?:^|[\[\]\s])[WID]\d{4} |\b(?:INFO|DEBUG|WARN)\b|not import|retry", re.IGNORECASE
)
_FINALISER = re.compile(r"_run_finalizers|\bin __del__|_exitfunc|_python_exit|resource_tracker|atexit")
MAX_AGE = 60  # lines of its own writer after which an unfinished one is closed
MAX_CHAIN = 50
CHAIN_LINES = 4  # blank lines and words between two parts of a chain


@dataclass(slots=True)
class Traceback:
    """`line` = its header, `last_line` = the line of its last exception (0: never said)."""

    line: int
    caught: bool = False
    finaliser: bool = False
    exceptions: list[str] = field(default_factory=list)  # the first cause first
    last_line: int = 0
    said: bool = False  # the exception was said: only a chain keeps it going
    chained: bool = False  # the words between two parts of a chain were read
    age: int = 0  # lines of this writer since the last that told something


class Tracebacks:
    """`feed` answers (a traceback that is over, whether the line was part of one)."""

    def __init__(self) -> None:
        self.current: Traceback | None = None
        self._thread_line: int | None = None
        self._ignored = False
        self.last_number = 0  # of the last line of this writer

    def feed(self, text: str, number: int) -> tuple[Traceback | None, bool]:
        self.last_number = number
        at = text.find(HEADER)
        if at >= 0:
            return self._begin(text[:at], number), True
        if "Exception in thread " in text:
            done, self._thread_line = self.end(), number
            return done, True
        if text.startswith("Exception ignored in"):
            done, self._ignored = self.end(), True
            return done, True
        if self.current is None:
            if _FRAME.match(text):  # the header was lost
                self.current = Traceback(number)
            return None, self.current is not None
        self.current.age += 1
        if self.current.said:
            return self._after(self.current, text)
        return self._inside(self.current, text, number)

    def end(self) -> Traceback | None:
        done, self.current = self.current, None
        self._thread_line, self._ignored = None, False
        return done

    def _begin(self, before: str, number: int) -> Traceback | None:
        current = self.current
        if current is not None and (not current.said or current.chained):
            current.said = current.chained = False  # a chain, or another writer in the same stream
            return None
        line, ignored = self._thread_line or number, self._ignored
        done = self.end()
        self.current = Traceback(line, caught=ignored or bool(_CAUGHT.search(before)))
        return done

    def _after(self, current: Traceback, text: str) -> tuple[Traceback | None, bool]:
        current.chained = current.chained or bool(_CHAIN.match(text))
        if not text.strip() or current.chained:
            return None, True
        if text[0] in " \t" and current.age <= CHAIN_LINES:  # a message of several lines
            return None, True
        return self.end(), False

    def _inside(self, current: Traceback, text: str, number: int) -> tuple[Traceback | None, bool]:
        if current.age > MAX_AGE:
            return self.end(), False
        if not text.strip() or text[0] in " \t|+":
            current.finaliser = current.finaliser or bool(_FINALISER.search(text))
            current.age = 0 if _FRAME.match(text) else current.age
            return None, True
        final = _FINAL.match(text)
        if final is None or not _EXCEPTION.search(final[1]):
            return None, False
        if len(current.exceptions) < MAX_CHAIN:
            current.exceptions.append(text.strip()[:1000])
        current.last_line, current.age, current.said = number, 0, True
        return None, True
