"""Authentication to a server: none, a bearer token, OAuth2 client credentials, or AWS keys."""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlencode

from pennon.errors import UnauthenticatedError
from pennon.iceberg import answers
from pennon.property_values import require_no_downgrade

if TYPE_CHECKING:
    from collections.abc import Callable

    from pennon.iceberg.settings import IcebergSettings

_MARGIN_SECONDS = 30.0
_OK = 200


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


class ClientCredentials:
    """OAuth2: exchange an id and a secret for a token, and renew it before it expires."""

    def __init__(
        self,
        settings: IcebergSettings,
        server: str,
        post: Callable[[str, bytes, dict[str, str]], tuple[int, bytes]],
    ) -> None:
        self._settings = settings
        self._url = settings.oauth2_server_uri or f"{server}/v1/oauth/tokens"
        require_no_downgrade(settings.uri, self._url, "The property 'oauth2-server-uri'")
        self._post = post
        self._lock = Lock()
        self._token = settings.token
        self._expires = float("inf")

    def headers(self, method: str, url: str, headers: dict[str, str], body: bytes | None) -> dict[str, str]:
        """Add the token, fetched first if there is none or its time is over."""
        with self._lock:
            if self._token is None or time.monotonic() >= self._expires:
                self._fetch()
            return {"Authorization": f"Bearer {self._token}"}

    def renew(self, refused: dict[str, str]) -> bool:
        """Fetch a new token, unless another thread has done so since."""
        with self._lock:
            if refused.get("Authorization") == f"Bearer {self._token}":
                self._fetch()
            return True

    def secret(self) -> str | None:
        """Return the fetched token, or None."""
        return self._token

    def _fetch(self) -> None:
        given = self._settings
        client, mark, secret = (given.credential or "").partition(":")
        form = {"grant_type": "client_credentials", "scope": given.scope or "catalog"}
        form |= {"client_id": client, "client_secret": secret} if mark else {"client_secret": client}
        form |= {key: value for key in ("audience", "resource") if (value := getattr(given, key)) is not None}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        status, body = self._post(self._url, urlencode(form).encode(), headers)
        if status != _OK:
            kind, message = answers.parse_error(body)
            reason = given.redacted(f": {kind} {message}") if kind or message else ""
            raise UnauthenticatedError(f"The OAuth2 server at {self._url} refused the credential ({status}){reason}")
        answer = answers.decode(body, "OAuth2 token")
        self._token = answers.text(answer, "access_token", "OAuth2 token")
        seconds = answer.get("expires_in")
        self._expires = float("inf")
        if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds > 0:
            self._expires = time.monotonic() + seconds - min(_MARGIN_SECONDS, seconds / 2)


def create_authenticator(
    settings: IcebergSettings, server: str, post: Callable[[str, bytes, dict[str, str]], tuple[int, bytes]]
) -> Authenticator:
    """Choose by what was given: AWS keys if asked for, then a credential, then a token."""
    if settings.sigv4_enabled:
        # Imported late: it needs an extra.
        from pennon.iceberg.sigv4 import Signer  # noqa: PLC0415

        return Signer(settings)
    if settings.credential is not None:
        return ClientCredentials(settings, server, post)
    return Bearer(settings.token) if settings.token is not None else NoAuthentication()
