"""Authentication to a server: none, a bearer token, OAuth2 client credentials, or AWS keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pennon.client_credentials import ClientCredentials

if TYPE_CHECKING:
    from collections.abc import Callable

    from pennon.iceberg.settings import IcebergSettings


class Authenticator(Protocol):
    """Adds to each request what says who we are."""

    def headers(self, method: str, url: str, headers: dict[str, str], body: bytes | None) -> dict[str, str]:
        """Return the headers to add to a request."""

    def renew(self, refused: dict[str, str]) -> bool:
        """Get new proof after the server refused these headers; False if there is none to get."""

    def secret(self) -> str | None:
        """Return a secret that is not among the properties, or None."""


class NoAuthentication:
    """No authentication of our own; headers that the user set are sent anyway."""

    def headers(self, method: str, url: str, headers: dict[str, str], body: bytes | None) -> dict[str, str]:
        """Add nothing."""
        return {}

    def renew(self, refused: dict[str, str]) -> bool:
        """Have nothing to renew."""
        return False

    def secret(self) -> str | None:
        """Have none."""
        return None


class Bearer(NoAuthentication):
    """A token that was given to us."""

    def __init__(self, token: str) -> None:
        self._token = token

    def headers(self, method: str, url: str, headers: dict[str, str], body: bytes | None) -> dict[str, str]:
        """Add the token."""
        return {"Authorization": f"Bearer {self._token}"}


def create_authenticator(
    settings: IcebergSettings, server: str, post: Callable[[str, bytes, dict[str, str]], tuple[int, bytes]]
) -> Authenticator:
    """Choose by what was given: AWS keys if asked for, then a credential, then a token."""
    if settings.sigv4_enabled:
        # Imported late: it needs an extra.
        from pennon.iceberg.sigv4 import Signer  # noqa: PLC0415

        return Signer(settings)
    if settings.credential is not None:
        return ClientCredentials(settings, settings.oauth2_server_uri or f"{server}/v1/oauth/tokens", post)
    return Bearer(settings.token) if settings.token is not None else NoAuthentication()
