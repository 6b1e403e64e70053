"""The image: clean by hadolint, built from what it copies and nothing else, for a user without rights."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.tools import tool

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "deploy/docker/Dockerfile"


def instructions() -> list[tuple[str, str]]:
    """(instruction, arguments) of the file, continuation lines joined, comments dropped."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#")]
    return [
        (word, rest.strip())
        for word, _, rest in (line.partition(" ") for line in "\n".join(lines).replace("\\\n", "").split("\n"))
        if word
    ]


def copied() -> list[str]:
    """What the build stage takes from the source tree."""
    sources = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    return [source for group in sources for source in group]


def test_the_dockerfile_is_clean():
    hadolint = tool("hadolint", "pip install -r .ci/tools.txt")
    done = subprocess.run([hadolint, str(DOCKERFILE)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def test_it_is_built_in_one_stage_and_run_in_another_by_nobody():
    words = [word for word, _ in instructions()]
    assert words.count("FROM") == 2
    last = instructions()[len(words) - 1 - words[::-1].index("FROM") :]
    assert ("USER", "65532:65532") in last
    assert not any(word == "RUN" for word, _ in last)


def test_the_build_context_holds_what_is_copied_and_no_more():
    ignore = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in ignore
    assert sorted(line[1:] for line in ignore if line.startswith("!")) == sorted(copied())


def test_its_steps_install_runwatch_from_what_is_copied_alone(tmp_path):
    src, prefix = tmp_path / "src", tmp_path / "opt"
    src.mkdir()
    for name in copied():
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, src / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, src)
    (steps,) = (rest for word, rest in instructions() if word == "RUN")
    steps = re.sub(r"\bpython -m venv", f"{sys.executable} -m venv", steps).replace("/opt/runwatch", str(prefix))
    steps = steps.replace("pip install", "pip install --no-deps")  # they take half a minute
    environ = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PIP_CONSTRAINT")}
    done = subprocess.run(["sh", "-euc", steps], cwd=src, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    said = subprocess.run([prefix / "bin/runwatch", "--version"], capture_output=True, text=True, check=True, cwd="/")
    assert said.stdout.startswith("runwatch ")
    assert not fnmatch.filter(os.listdir(prefix / "bin"), "pip*")
