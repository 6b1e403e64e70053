"""YAML -> a checked model. All errors at once, each with file, line, key path and what to do."""

from __future__ import annotations

import types
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

MAX_BYTES = 4 << 20
MAX_PROBLEMS = 100
MAX_NODES = 200_000
MAX_DEPTH = 50
CLOSE_ENOUGH = 60.0
PLAIN = {  # what YAML calls the things that pydantic misses
    "missing": "is missing",
    "string_type": "must be a text",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a mapping (name: value)",
    "model_type": "must be a mapping (name: value)",
}
Loc = tuple[int | str, ...]
M = TypeVar("M", bound=BaseModel)


class ConfigError(Exception):
    """`problems`: one readable line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


def load(path: Path, model: type[M]) -> M:
    """The file as `model`. Raises ConfigError."""
    values, lines = read_yaml(path)
    return validate(values, model, str(path), lines)


def validate(values: Any, model: type[M], where: str, lines: Mapping[Loc, int] | None = None) -> M:
    """Plain values as `model`. `lines`: key path -> line, for the messages. Raises ConfigError."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(list(_problems(error, model, where, lines or {}))[:MAX_PROBLEMS]) from None


def read_yaml(path: Path) -> tuple[Any, dict[Loc, int]]:
    """The plain values of a YAML file and the line of each key. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ConfigError([f"{path}: larger than {MAX_BYTES >> 20} MiB, this is no config"])
        text = data.decode("utf-8")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: not UTF-8 text at byte {error.start}"]) from None
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror}"]) from None
    except RecursionError:
        raise ConfigError([f"{path}: not YAML: nested too deeply"]) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError([f"{path}:{line}: not YAML: {error.problem or error.context}"]) from None
    except yaml.YAMLError as error:
        raise ConfigError([f"{path}: not YAML: {error}"]) from None
    walk = _Walk(str(path))
    try:
        if node is not None:
            walk.visit(node, ())
        values = yaml.safe_load(text) or {}
        if isinstance(values, dict):  # `runs:` with nothing below, or all of it commented out, is the default
            values = {key: value for key, value in values.items() if value is not None}
    except (RecursionError, _TooMuchError):
        raise ConfigError([f"{path}: nested too deeply, or anchors that repeat each other without end"]) from None
    except yaml.YAMLError as error:  # a tag that is not plain data
        raise ConfigError([f"{path}: {' '.join(str(error).split())}"[:300]]) from None
    if walk.doubled:
        raise ConfigError(walk.doubled)
    return values, walk.lines


class _TooMuchError(Exception):
    """More nodes than any config has."""


class _Walk:
    """The line of each key, and keys that stand twice. Anchors are walked where they are used, within a bound."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.lines: dict[Loc, int] = {}
        self.doubled: list[str] = []
        self._left = MAX_NODES

    def visit(self, node: yaml.Node, at: Loc) -> None:
        self._left -= 1
        if self._left < 0 or len(at) > MAX_DEPTH:
            raise _TooMuchError
        self.lines.setdefault(at, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            seen: set[Hashable] = set()
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    continue
                place = (*at, key.value)
                if key.value in seen:
                    line = key.start_mark.line + 1
                    self.doubled.append(f"{self.where}:{line}: {dotted(place)}: the key stands here twice")
                seen.add(key.value)
                self.lines[place] = key.start_mark.line + 1
                self.visit(value, place)
        elif isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                self.visit(value, (*at, number))


def dotted(loc: Sequence[int | str]) -> str:
    """`runs[0].logs[1].path`."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _problems(error: ValidationError, model: type[BaseModel], where: str, lines: Mapping[Loc, int]) -> Iterator[str]:
    for item in error.errors(include_url=False, include_input=False):
        loc: Loc = _real(tuple(item["loc"]), lines)
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            elsewhere = getattr(model, "ELSEWHERE", {}).get(loc[0]) if len(loc) == 1 else None
            message = elsewhere or "unknown key" + _suggestion(str(loc[-1]), _keys_at(model, loc[:-1]))
        else:
            message = PLAIN.get(item["type"], message)
        line = next((lines[loc[:n]] for n in range(len(loc), -1, -1) if loc[:n] in lines), None)
        place = f"{where}:{line}" if line is not None else where
        yield f"{place}: {dotted(loc)}: {message}" if loc else f"{place}: {message}"


def _real(loc: Loc, lines: Mapping[Loc, int]) -> Loc:
    """Without the names that pydantic puts in for the members of a union."""
    if not lines:
        return loc
    out: Loc = ()
    for n, part in enumerate(loc):
        if (*out, part) in lines or n == len(loc) - 1:
            out = (*out, part)
    return out


def _suggestion(name: str, known: Sequence[str]) -> str:
    from rapidfuzz import fuzz, process  # only a config with a mistake needs it

    best = process.extractOne(name, known, scorer=fuzz.ratio, score_cutoff=CLOSE_ENOUGH)
    if best is not None:
        return f" (did you mean {best[0]}?)"
    return f"; known here: {', '.join(sorted(known))}" if known else ""


def _keys_at(model: type[BaseModel], loc: Loc) -> list[str]:
    """Keys that the model knows at a place."""
    here: list[Any] = [model]
    for part in loc:
        here = [inner for kind in here for inner in _inside(kind, part)]
    return [name for kind in here for name in (kind.model_fields if _is_model(kind) else ())]


def _inside(kind: Any, part: int | str) -> list[Any]:
    if _is_model(kind):
        field = kind.model_fields.get(str(part))
        return _members(field.annotation) if field is not None else []
    arguments = [a for a in get_args(kind) if a is not Ellipsis]
    return _members(arguments[-1]) if arguments and get_origin(kind) is not None else []


def _members(kind: Any) -> list[Any]:
    """The kinds that a union offers, or the kind itself."""
    if get_origin(kind) in (Union, types.UnionType):
        return [member for argument in get_args(kind) for member in _members(argument)]
    return [kind]


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
