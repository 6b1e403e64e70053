"""Every sample in tests/corpus is read as its expected events say. To write them anew after a look at the difference:
`python tests/watcher/formats/test_corpus.py NAME...`"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from watcher.formats._reader import LogReader
from watcher.formats._summary import Summary

CORPUS = Path(__file__).resolve().parents[2] / "corpus"
SAMPLES = sorted(path.stem for path in CORPUS.glob("*.log"))


def read(name: str) -> list[dict[str, Any]]:
    """The events of a sample in the order of their lines, then the summary, as `parse-log --json` prints them."""
    reader, summary = LogReader(), Summary()
    events = reader.feed_block((CORPUS / f"{name}.log").read_bytes(), 1) + reader.flush()
    for event in events:
        summary.add(event)
    items = [event.to_json() for event in sorted(events, key=lambda event: event.line)]
    return [*items, summary.to_json()]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_read_as_expected(name: str) -> None:
    lines = (CORPUS / f"{name}.expected.jsonl").read_text(encoding="utf-8").splitlines()
    said = [json.dumps(item, ensure_ascii=False) for item in read(name)]
    assert said == lines


@pytest.mark.parametrize("name", SAMPLES)
def test_lines_one_by_one_and_in_blocks_tell_the_same(name: str) -> None:
    data = (CORPUS / f"{name}.log").read_bytes()
    one, many = LogReader(), LogReader()
    events = [e for n, line in enumerate(data.decode().split("\n"), 1) for e in one.feed(line, n)] + one.flush()
    assert repr(events) == repr(many.feed_block(data, 1) + many.flush())


if __name__ == "__main__":
    for sample in sys.argv[1:] or SAMPLES:
        text = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in read(sample))
        (CORPUS / f"{sample}.expected.jsonl").write_text(text, encoding="utf-8")
