"""The model of a policy file. docs/guides/secure.md describes it."""

import re
from datetime import datetime, timezone
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from typing_extensions import Self

from pennon.errors import InvalidInputError
from pennon.identifiers import ROOT, Identifier, parse_identifier
from pennon.server.loopback import is_loopback
from pennon.server.permissions.keys import HASH_PATTERN, ID_PATTERN
from pennon.server.permissions.roles import Role

GROUP = "group:"
"""Begins the name of a group where users and groups are listed."""
RESERVED_NAMES = frozenset({"anonymous", "token", "group"})
"""Names that the server uses itself."""
NAME_PATTERN = r"^[0-9A-Za-z][0-9A-Za-z_.@-]{0,99}$"
SUBJECT_PATTERN = r"^[^\x00-\x1f\x7f]{1,400}$"
PATTERNS = {
    NAME_PATTERN: "up to 100 letters, digits, '_', '-', '.' and '@', beginning with a letter or digit",
    SUBJECT_PATTERN: "a name without control characters",
    ID_PATTERN: "16 hexadecimal digits",
    HASH_PATTERN: "the hash that 'pennon access key' prints",
}
_SLASH = "/"


def _to_list(value: Any) -> Any:  # noqa: ANN401 - as YAML has it
    return [value] if isinstance(value, str) else value


def _to_identifier(value: Any) -> Identifier:  # noqa: ANN401 - the same
    if not isinstance(value, str):
        raise ValueError("must be a text such as 'sales.orders'")  # noqa: TRY004 - pydantic takes ValueError only
    if value == _SLASH:
        return ROOT
    try:
        identifier = parse_identifier(value)
    except InvalidInputError as error:
        raise ValueError(str(error)) from error
    if not identifier:
        raise ValueError(f"must name an object; the whole catalog is the namespace {_SLASH!r}")
    return identifier


def _to_time(value: Any) -> Any:  # noqa: ANN401 - the same
    if not isinstance(value, str):
        raise ValueError("must be a time such as 2027-01-31 or 2027-01-31T12:00:00+00:00")  # noqa: TRY004 - the same
    try:
        # Python 3.10 knows no 'Z'.
        time = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        raise ValueError("must be a time such as 2027-01-31 or 2027-01-31T12:00:00+00:00") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)


def _require_trusted_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme == "https" and parts.hostname:
        return value
    if parts.scheme == "http" and is_loopback(parts.hostname or ""):
        return value
    raise ValueError("must be an https URL; http is allowed on this machine only")


def _require_free_name(value: Any) -> Any:  # noqa: ANN401 - the same
    if value in RESERVED_NAMES:
        raise ValueError(f"{value!r} is a name of the server's own")
    return value


def is_user_name(text: str) -> bool:
    """Return True if a user with an API key can have this name."""
    return re.match(NAME_PATTERN, text) is not None and text not in RESERVED_NAMES


Name = Annotated[str, Field(pattern=NAME_PATTERN), BeforeValidator(_require_free_name)]
Subject = Annotated[str, Field(pattern=SUBJECT_PATTERN)]
Subjects = Annotated[tuple[Subject, ...], Field(min_length=1), BeforeValidator(_to_list)]
Place = Annotated[Identifier, BeforeValidator(_to_identifier)]
Time = Annotated[datetime, BeforeValidator(_to_time)]
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519"]
"""Only signatures with public keys: with HMAC, everyone who can check a token could make one."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class KeyEntry(_Model):
    """An API key of a user."""

    user: Name
    id: str = Field(pattern=ID_PATTERN)
    hash: str = Field(pattern=HASH_PATTERN, repr=False)
    expires: Time | None = None


class IssuerEntry(_Model):
    """A provider of OIDC tokens. Its users and groups have its name in front: `corp:alice`."""

    name: Name
    issuer: Annotated[str, Field(min_length=1)]
    audience: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1), BeforeValidator(_to_list)]
    jwks: str | None = None
    """The URL of the keys; by default the one that the provider's configuration names."""
    algorithms: Annotated[tuple[Algorithm, ...], Field(min_length=1), BeforeValidator(_to_list)] = ("RS256",)
    user_claim: Annotated[str, Field(min_length=1)] = "sub"
    groups_claim: Annotated[str, Field(min_length=1)] = "groups"
    leeway_seconds: int = Field(60, ge=0, le=600)

    @model_validator(mode="after")
    def _require_trusted_urls(self) -> Self:
        for url in (self.issuer, self.jwks):
            if url is not None:
                _require_trusted_url(url)
        return self


class GrantEntry(_Model):
    """A role on a namespace with everything below it, or on one table."""

    role: Role
    namespace: Place | None = None
    table: Place | None = None
    to: Subjects

    @model_validator(mode="after")
    def _require_one_place(self) -> Self:
        if (self.namespace is None) == (self.table is None):
            raise ValueError("must have either 'namespace' or 'table'")
        if self.table == ROOT:
            raise ValueError("'table' must name a table")
        return self


class PolicyDocument(_Model):
    """The whole file."""

    keys: tuple[KeyEntry, ...] = ()
    issuers: tuple[IssuerEntry, ...] = ()
    groups: dict[Name, Annotated[tuple[Subject, ...], BeforeValidator(_to_list)]] = {}
    grants: tuple[GrantEntry, ...] = ()
