"""What the config says of a place to fetch from; light, so that reading a config loads no HTTP client."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from alerts.secret import Secret, one_of

LABEL = "^[a-zA-Z_][a-zA-Z0-9_]*$"


def plain_url(value: str) -> str:
    """A URL that can be shown to people. Raises ValueError."""
    try:
        parts = urlsplit(value)
        host = parts.hostname
    except ValueError:
        raise ValueError("is no URL") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("must begin with http:// or https:// and name a host")
    if parts.username or parts.password:
        raise ValueError("carries a password: use username and password_file")
    if parts.query or parts.fragment:
        raise ValueError("must end with the path, without ? and #")
    return value


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


class ApiSection(AuthSection):
    """url: with the path before /api/v1, as Mimir's .../prometheus. org_id: tenant, sent as X-Scope-OrgID."""

    url: str = Field(max_length=2_000)
    org_id: str | None = Field(default=None, pattern=r"^[\x21-\x7e]{1,200}$")
    extra_headers: dict[str, Secret] = Field(default_factory=dict)

    @field_validator("url")
    @classmethod
    def _plain_url(cls, value: str) -> str:
        return plain_url(value).rstrip("/").removesuffix("/api/v1")

    def headers(self) -> dict[str, str]:
        own = {name: value.reveal() for name, value in self.extra_headers.items()}
        tenant = {"X-Scope-OrgID": self.org_id} if self.org_id is not None else {}
        return {**tenant, **own, **super().headers()}


class EngineSection(ApiSection):
    """metrics: whose words they are. node_label: which label names the node. selector: more matchers, as in
    `cluster="a",job=~"dcgm.*"`. labels: uuid, index, model and bus, where they were renamed on the way.

    window_seconds: how far back a sample may lie; more than two scrapes. power_limit_watts: where none is told.
    """

    metrics: str = "dcgm_exporter"
    node_label: str | None = Field(default=None, pattern=LABEL)
    selector: str = Field(default="", max_length=1_000, pattern=r"^[^{}\n]*$")
    labels: dict[Literal["uuid", "index", "model", "bus"], Annotated[str, Field(pattern=LABEL)]] = Field(
        default_factory=dict
    )
    window_seconds: float = Field(default=150.0, ge=10, le=900)
    power_limit_watts: float | None = Field(default=None, ge=1, le=5_000)
