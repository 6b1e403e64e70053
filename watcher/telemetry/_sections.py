"""What the config says of a place to fetch from; light, so that reading a config loads no HTTP client."""

from __future__ import annotations

import base64
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from alerts.secret import Secret, one_of


class AuthSection(BaseModel):
    """What the other side asks of us. ca_file: whom we trust instead of the system's authorities."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, arbitrary_types_allowed=True)
    token: Secret | None = None
    token_file: str | None = None
    username: str | None = None
    password: Secret | None = None
    password_file: str | None = None
    ca_file: Path | None = None
    timeout_seconds: float = Field(default=8.0, gt=0, le=60)

    @model_validator(mode="after")
    def _auth(self) -> AuthSection:
        token = one_of("token", self.token, self.token_file)
        password = one_of("password", self.password, self.password_file)
        if token is not None and self.username is not None:
            raise ValueError("give token_file, or username and password_file, not both")
        if (self.username is None) != (password is None):
            raise ValueError("username and password_file belong together")
        return self

    def headers(self) -> dict[str, str]:
        """Raises SecretError."""
        if (token := one_of("token", self.token, self.token_file)) is not None:
            return {"Authorization": f"Bearer {token.reveal()}"}
        password = one_of("password", self.password, self.password_file)
        if password is not None:
            pair = f"{self.username}:{password.reveal()}".encode()
            return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        return {}


class ExporterSection(AuthSection):
    """Where the exporter of a node listens. `addresses`: NODE: HOST[:PORT] where the name alone does not lead there.

    power_limit_watts: of each GPU, where the exporter tells none.
    """

    port: int = Field(default=9400, ge=1, le=65_535)
    scheme: str = Field(default="http", pattern="^https?$")
    path: str = Field(default="/metrics", pattern="^/")
    addresses: dict[str, str] = Field(default_factory=dict)
    power_limit_watts: float | None = Field(default=None, ge=1, le=5_000)

    def url(self, node: str) -> str:
        host = self.addresses.get(node, node)
        has_port = host.rpartition(":")[2].isdigit() and (host.count(":") == 1 or "]:" in host)
        return f"{self.scheme}://{host if has_port else f'{host}:{self.port}'}{self.path}"
