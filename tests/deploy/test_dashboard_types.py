"""The dashboards have the types of Grafana's own schema, as TypeScript checks them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "deploy/grafana"
PACKAGES = ("@grafana/schema@11.6.16", "typescript@5.9.3")  # the schema of the line that the dashboards are made for
OPTIONS = ("--noEmit", "--skipLibCheck", "--strict", "--moduleResolution", "bundler", "--module", "esnext")
# JSON has no enums, only their values; the words of a mark belong to the data source, not to the schema
TYPES = """
import type {AnnotationQuery, Dashboard} from '@grafana/schema';
type Plain<T> = T extends string ? `${T}` : T extends object ? {[K in keyof T]: Plain<T[K]>} : T;
type Mark = AnnotationQuery & {titleFormat: string; target: {expr: string; interval: string}};
export type Board = Plain<Omit<Dashboard, 'annotations'> & {annotations?: {list?: Mark[]}}>;
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A folder with the schema and the compiler in it."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("needs npm, which no Debian package of ours brings; the other tests of the dashboards run without")
    folder = tmp_path_factory.mktemp("types")
    (folder / "package.json").write_text('{"private": true}')
    command = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", *PACKAGES]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=90)
    except subprocess.TimeoutExpired:
        pytest.skip("npm did not get the schema within 90 seconds")
    if done.returncode:
        pytest.skip(f"npm cannot get the schema: {done.stderr[-300:]}")
    (folder / "board.ts").write_text(TYPES)
    return folder


def compiled(project: Path, *files: Path) -> str:
    """What the compiler has to say."""
    command = ["node", "node_modules/typescript/bin/tsc", *OPTIONS, "--target", "es2022", *map(str, files)]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120).stdout


def written(project: Path, name: str, model: str) -> Path:
    file = project / f"{name}.ts"
    file.write_text(f"import type {{Board}} from './board';\nexport const board: Board = {model}")
    return file


def test_the_compiler_agrees_with_every_dashboard(project):
    files = [written(project, path.stem, path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))]
    assert len(files) >= 4
    assert compiled(project, *files) == ""


def test_the_compiler_would_say_so(project):
    model = (FOLDER / "fleet.json").read_text(encoding="utf-8").replace('"editable": false', '"editable": "no"')
    assert "not assignable to type 'boolean" in compiled(project, written(project, "wrong", model))
