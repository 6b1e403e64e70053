"""Secrets that cannot be printed, and where they come from: the value itself or a file read at each use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

MAX_SECRET_BYTES = 16_384


class SecretError(Exception):
    """A secret file cannot be used; names the file, never the content."""


class Secret:
    """A value that repr, str, format, dumps and tracebacks show as `<secret>`; `reveal()` it at the last moment."""

    __slots__ = ("_read",)

    def __init__(self, read: str | Callable[[], str]) -> None:
        self._read: Callable[[], str] = (lambda: read) if isinstance(read, str) else read

    def reveal(self) -> str:
        """The value. Raises SecretError where it comes from a file that cannot be read."""
        return self._read()

    def __repr__(self) -> str:
        return "<secret>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return "<secret>"

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be pickled")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def make(value: Any) -> Secret:
            if isinstance(value, Secret):
                return value
            if not isinstance(value, str) or not value.strip():
                raise ValueError("must be a non-empty text")
            return cls(value.strip())

        return core_schema.no_info_plain_validator_function(
            make, serialization=core_schema.plain_serializer_function_ser_schema(lambda _: "<secret>")
        )


def secret_file(path: str | Path) -> Secret:
    """Read at each use, so that a rotated key needs no restart."""
    place = Path(path)

    def read() -> str:
        try:
            with place.open("rb") as file:
                value = file.read(MAX_SECRET_BYTES).decode("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise SecretError(f"secret file {place}: {why}") from None
        if not value:
            raise SecretError(f"secret file {place} is empty")
        return value

    return Secret(read)


def one_of(name: str, value: Secret | None, file: str | None) -> Secret | None:
    """The secret given directly or by its `*_file` twin; ValueError when both are."""
    if value is not None and file is not None:
        raise ValueError(f"give {name} or {name}_file, not both")
    return value if file is None else secret_file(file)


def required(name: str, value: Secret | None, file: str | None) -> Secret:
    found = one_of(name, value, file)
    if found is None:
        raise ValueError(f"{name} or {name}_file is missing")
    return found
