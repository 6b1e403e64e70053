"""Where a process listens. Beyond loopback it needs a token, and TLS unless the config says otherwise."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema


class TlsSection(BaseModel):
    """A certificate with its chain, and its key, in PEM form. Renewed files are taken up without a restart."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    cert_file: Path
    key_file: Path


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

    def check(self, token_file: Path | None, tls: TlsSection | None, plain_http: bool) -> None:
        """Raises ValueError where everybody could ask without a token, or read it on its way."""
        if self.is_loopback:
            return
        if token_file is None:
            raise ValueError(f"listen {self} is open to others: set token_file, or listen on 127.0.0.1")
        if tls is None and not plain_http:
            raise ValueError(
                f"listen {self} would send the token in the clear: set tls: {{cert_file: ..., key_file: ...}}, "
                f"or plain_http: true where the network is private"
            )

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
