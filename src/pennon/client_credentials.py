"""OAuth2 client credentials: an id and a secret become tokens, which are renewed."""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from pennon import json_answers
from pennon.errors import UnauthenticatedError
from pennon.property_values import require_no_downgrade

if TYPE_CHECKING:
    from collections.abc import Callable

    from pennon.http_settings import HttpSettings

_MARGIN_SECONDS = 30.0
_OK = 200
_DEFAULT_SCOPE = "catalog"


class ClientCredentials:
    """OAuth2: exchange an id and a secret for a token, and renew it before it expires."""

    def __init__(
        self,
        settings: HttpSettings,
        url: str,
        post: Callable[[str, bytes, dict[str, str]], tuple[int, bytes]],
    ) -> None:
        self._settings = settings
        self._url = url
        require_no_downgrade(settings.uri, self._url, "The property 'oauth2-server-uri'")
        self._post = post
        self._lock = Lock()
        self._token = settings.token
        self._expires = float("inf")

    def headers(self, *_: object) -> dict[str, str]:
        """Return the header with the token, fetched first if there is none or its time is over."""
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
        form = {"grant_type": "client_credentials", "scope": given.scope or _DEFAULT_SCOPE}
        form |= {"client_id": client, "client_secret": secret} if mark else {"client_secret": client}
        form |= {key: value for key in ("audience", "resource") if (value := getattr(given, key)) is not None}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        status, body = self._post(self._url, urlencode(form).encode(), headers)
        if status != _OK:
            kind, message = json_answers.parse_error(body)
            reason = given.redacted(f": {kind} {message}") if kind or message else ""
            raise UnauthenticatedError(f"The OAuth2 server at {self._url} refused the credential ({status}){reason}")
        answer = json_answers.decode(body, "OAuth2 token")
        self._token = json_answers.text(answer, "access_token", "OAuth2 token")
        seconds = answer.get("expires_in")
        self._expires = float("inf")
        if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds > 0:
            self._expires = time.monotonic() + seconds - min(_MARGIN_SECONDS, seconds / 2)
