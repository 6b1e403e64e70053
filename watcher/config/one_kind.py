"""A config item that is exactly one plug-in's section: {KIND: {...}}, or KIND alone where nothing has to be set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, create_model, model_validator


class OneKind(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    KINDS: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {value: {}}
        if not isinstance(value, dict):
            return value
        return {kind: {} if section is None else section for kind, section in value.items()}

    @model_validator(mode="after")
    def _one(self) -> OneKind:
        given = [name for name in self.KINDS if getattr(self, name) is not None]
        if len(given) != 1:
            known = ", ".join(self.KINDS)
            raise ValueError(f"must be one of {known}" + (f", not {' and '.join(given)}" if given else ""))
        return self


def one_kind_model(name: str, sections: Mapping[str, type[BaseModel]]) -> type[BaseModel]:
    """A model with one optional section for each kind."""
    fields: dict[str, Any] = {kind: (section | None, None) for kind, section in sections.items()}
    model = create_model(name, __base__=OneKind, **fields)
    model.KINDS = tuple(sections)
    return model


def chosen(item: BaseModel) -> tuple[str, Any]:
    """The kind and its section."""
    assert isinstance(item, OneKind)
    return next((kind, section) for kind in item.KINDS if (section := getattr(item, kind)) is not None)
