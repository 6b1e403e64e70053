"""A plug-in is one file in a folder; one that is broken stops start-up and is named, whatever is wrong with it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import pytest

from detectors.plugins import PluginError, load


@dataclass(frozen=True)
class Thing:
    name: str


GOOD = "from tests.detectors.test_plugins import Thing\nPLUGIN = Thing({name!r})\n"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Callable[..., ModuleType]:
    """A package of the given files; names are unique to each test."""

    def make(**files: str) -> ModuleType:
        place = tmp_path / f"things_{tmp_path.name[-6:]}_{len(list(tmp_path.iterdir()))}"
        place.mkdir()
        for name, text in {"__init__": "", **files}.items():
            (place / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(str(tmp_path))
        return importlib.import_module(place.name)

    return make


def test_each_file_is_one_and_what_begins_with_a_line_is_none(folder):
    found = load(folder(b=GOOD.format(name="b"), a=GOOD.format(name="a"), _shared="x = 1\n"), Thing, "thing")
    assert list(found) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import nothing_of_that_name\n", "thing broken .* cannot be loaded: ModuleNotFoundError"),
        ("1 / 0\n", "cannot be loaded: ZeroDivisionError"),
        ("PLUGIN = 5\n", "PLUGIN must be a Thing whose name is 'broken'"),
        (GOOD.format(name="another"), "whose name is 'broken'"),
        ("", "cannot be loaded: AttributeError"),
    ],
)
def test_a_broken_one_is_named_with_the_reason(folder, text, why):
    with pytest.raises(PluginError, match=why):
        load(folder(broken=text, fine=GOOD.format(name="fine")), Thing, "thing")
