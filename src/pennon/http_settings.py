"""The settings that all clients of HTTP servers have in common."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from pennon.redaction import hide_secrets

OAUTH2_URI = "oauth2-server-uri"
OAUTH2_TEXTS = {
    "credential": "credential",
    OAUTH2_URI: "oauth2_server_uri",
    "scope": "scope",
    "audience": "audience",
    "resource": "resource",
}
"""The properties of OAuth2 client credentials, and their settings."""


@dataclass(frozen=True, kw_only=True)
class HttpSettings:
    """How a server is reached, and what proves who we are.

    A secret never shows in `repr`, and `redacted` takes it out of texts that come from elsewhere.
    """

    uri: str
    token: str | None = field(default=None, repr=False)
    credential: str | None = field(default=None, repr=False)
    """The id and the secret of an OAuth2 client, with a colon between them."""
    oauth2_server_uri: str | None = None
    scope: str | None = None
    audience: str | None = None
    resource: str | None = None
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    ca_bundle: str | None = None
    client_certificate: str | None = None
    client_key: str | None = field(default=None, repr=False)
    connect_seconds: float = 10.0
    read_seconds: float = 60.0
    retry_seconds: float = 60.0
    max_answer_bytes: int = 256 << 20
    storage_options: dict[str, str] = field(default_factory=dict, repr=False)

    def redacted(self, text: str) -> str:
        """Return a foreign text with the secrets replaced."""
        return hide_secrets(text, self._secrets())

    def _secrets(self) -> list[str]:
        given = [getattr(self, one.name) for one in fields(self) if not one.repr]
        parts: list[str] = []
        for value in given:
            parts += value.values() if isinstance(value, dict) else [value] if value else []
        parts += [self.credential.partition(":")[2]] if self.credential else []
        parts += [part for value in self.headers.values() for part in value.split(" ")]
        return parts
