from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from watcher.config.logs import LogConfig


def config(**values: Any) -> LogConfig:
    return LogConfig.model_validate({"path": "/logs/train.log", **values})


@pytest.mark.parametrize(
    ("values", "where", "words"),
    [
        ({"path": "logs/train.log"}, (), "relative"),
        ({"format": "megatorn"}, ("format",), "no log format is called 'megatorn'"),
        ({"encoding": "utf-16"}, ("encoding",), "no encoding of lines"),
        ({"encoding": "klingon"}, ("encoding",), "no encoding of lines"),
        ({"patterns": {}}, ("patterns",), "no pattern is given"),
        ({"patterns": {"step": "step (?=x)"}}, ("patterns", "step", 0), "look-ahead"),
        ({"patterns": {"step": "step"}}, ("patterns", "step", 0), "needs a group named step"),
        ({"patterns": {"step": r"(?P<step>\d+) (?P<los>\d+)"}}, ("patterns", "step", 0), "unknown group name 'los'"),
        ({"patterns": {"errors": ["(?P<node>x)"]}}, ("patterns", "errors", 0, "pattern"), "unknown group name 'node'"),
        ({"patterns": {"errors": [{"pattern": "x", "kind": "bad"}]}}, ("patterns", "errors", 0, "kind"), "nccl_error"),
        (
            {"patterns": {"phases": [{"name": "evaluation", "start": "(", "max_seconds": 5}]}},
            ("patterns", "phases", 0, "start"),
            "is not closed",
        ),
        (
            {"patterns": {"phases": [{"name": "evaluation", "start": "x", "max_seconds": 0}]}},
            ("patterns", "phases", 0, "max_seconds"),
            "greater than 0",
        ),
        ({"follow": True}, ("follow",), "not permitted"),
    ],
)
def test_every_mistake_is_named_with_its_place(
    values: dict[str, Any], where: tuple[str | int, ...], words: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        config(**values)
    (error,) = caught.value.errors()
    assert error["loc"] == where
    assert words in error["msg"]


def test_a_path_alone_is_enough() -> None:
    assert LogConfig.model_validate("/logs/*-%N.out") == LogConfig(path="/logs/*-%N.out")


def test_an_encoding_may_be_written_in_any_of_its_names() -> None:
    assert config(encoding="UTF8").encoding == "utf-8"
    assert config(encoding="latin1").encoding == "iso8859-1"
