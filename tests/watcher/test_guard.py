"""The start-up guard: generic package names are ours alone, or it says what to do."""

from __future__ import annotations

from watcher.guard import package_problems

HERE = {name: ["/opt/env/site-packages/" + name] for name in ("watcher", "alerts", "detectors")}
OURS = {name: ["runwatch"] for name in HERE}


def test_this_installation_is_in_order():
    assert package_problems() == []


def test_a_package_from_another_place_is_named_with_both_places():
    (line,) = package_problems({**HERE, "alerts": ["/home/me/project/alerts"]}, OURS)
    assert "package alerts comes from /home/me/project" in line
    assert "without PYTHONPATH" in line


def test_a_package_that_two_distributions_own_is_named():
    (line,) = package_problems(HERE, {**OURS, "watcher": ["runwatch", "file-watcher"]})
    assert "package watcher is also installed by file-watcher" in line


def test_a_package_that_lies_in_two_places_is_named():
    (line,) = package_problems({**HERE, "detectors": [*HERE["detectors"], "/x/detectors"]}, OURS)
    assert "detectors" in line


def test_a_stranger_that_installs_into_our_packages_is_found(tmp_path, monkeypatch):
    record = tmp_path / "file_watcher-2.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: file-watcher\nVersion: 2.0\n")
    (record / "RECORD").write_text("file_watcher/x.py,,\nwatcher/observe.py,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (line,) = package_problems(HERE)
    assert "package watcher is also installed by file-watcher" in line
