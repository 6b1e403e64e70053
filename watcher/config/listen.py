"""Where a process listens. Without a token only loopback is allowed."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True, slots=True)
class Listen:
    """`HOST:PORT`, an IPv6 address in brackets. Port 0 takes a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def check_token(self, token_file: Path | None) -> None:
        """Raises ValueError where everybody could ask without a token."""
        if token_file is None and not self.is_loopback:
            raise ValueError(f"listen {self} is open to others: set token_file, or listen on 127.0.0.1")

    @classmethod
    def parse(cls, text: Any) -> Listen:
        if isinstance(text, Listen):
            return text
        host, sign, port = str(text).rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not sign or not host or not port.isdigit() or int(port) > 65_535:
            raise ValueError(f"{str(text)[:80]!r} is not HOST:PORT, as in 0.0.0.0:9876")
        return cls(host, int(port))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(cls.parse, serialization=core_schema.to_string_ser_schema())
