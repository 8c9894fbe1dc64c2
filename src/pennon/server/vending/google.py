"""Credentials of Google Cloud: a token that is exchanged for one limited to the directory of one table."""

from __future__ import annotations

import json
import threading
import time
from datetime import timezone
from typing import TYPE_CHECKING, Any

from pennon.config import EXPIRY
from pennon.errors import InvalidInputError, ServiceUnavailableError
from pennon.server.vending.cache import CredentialCache
from pennon.server.vending.directories import BucketDirectory, parse_directory

try:
    import google.auth
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import Request
    from google.oauth2 import sts
except ImportError as missing:
    raise InvalidInputError("Vending credentials of Google Cloud needs google-auth: install pennon[gcs]") from missing

if TYPE_CHECKING:
    from pennon.server.vending.settings import GoogleBoundary

_SCHEMES = {"gs"}
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a type, not a token
_ENDPOINT = "https://sts.googleapis.com/v1/token"
_LEAST_SECONDS = 300
"""Tokens that expire sooner are renewed. Google's metadata server has no new ones before that."""
_READS, _WRITES = "inRole:roles/storage.objectViewer", "inRole:roles/storage.objectUser"


class BoundaryVendor:
    """Exchanges the server's own token for each client and table. Threads share it."""

    def __init__(self, boundary: GoogleBoundary) -> None:
        self._sts = sts.Client(boundary.token_endpoint or _ENDPOINT)
        self._lock = threading.Lock()
        self._cache = CredentialCache(_LEAST_SECONDS)
        self._own: Any = None

    def vend(self, location: str, *, writes: bool, user: str) -> dict[str, str] | None:
        """Return the options for the table at a location, or None if it is not in Google Cloud Storage.

        Raises ServiceUnavailableError if no token can be had.
        """
        directory = parse_directory(location, _SCHEMES)
        if directory is None:
            return None
        return self._cache.find_or_make((user, location, writes), lambda: self._exchange(directory, writes=writes))

    def _exchange(self, directory: BucketDirectory, *, writes: bool) -> dict[str, str]:
        request = Request()
        try:
            token, expiry = self._own_token(request)
            answer = self._sts.exchange_token(
                request,
                _GRANT,
                token,
                _TOKEN,
                requested_token_type=_TOKEN,
                additional_options=access_boundary(directory, writes=writes),
            )
            return _parse_answer(answer, expiry)
        except (GoogleAuthError, OSError, ValueError) as error:
            raise ServiceUnavailableError("Credentials for the table cannot be made; try again later") from error

    def _own_token(self, request: Request) -> tuple[str, float]:
        """Return the server's own token and the time when it expires."""
        with self._lock:
            if self._own is None:
                self._own, _ = google.auth.default(scopes=[_SCOPE])
            expiry = self._expiry()
            if expiry is None or expiry - time.time() < _LEAST_SECONDS:
                self._own.refresh(request)
                expiry = self._expiry()
            return self._own.token, time.time() if expiry is None else expiry

    def _expiry(self) -> float | None:
        found = self._own.expiry
        return None if found is None else found.replace(tzinfo=timezone.utc).timestamp()


def _parse_answer(answer: object, expiry: float) -> dict[str, str]:
    """Return the options in an answer to an exchange. Raises ValueError if they are not in it."""
    token = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or not isinstance(token, str) or not token:
        raise ValueError("The answer to the exchange has no token")
    # Without a time of its own, the token is valid as long as the one that it was exchanged for.
    seconds = answer.get("expires_in")
    expires = min(expiry, time.time() + seconds) if isinstance(seconds, (int, float)) else expiry
    return {"google_storage_token": token, EXPIRY: str(int(expires * 1000))}


def access_boundary(directory: BucketDirectory, *, writes: bool) -> dict[str, Any]:
    """Return an access boundary that allows reading, or also writing, below one directory of a bucket."""
    bucket, prefix = directory.bucket, f"{directory.path}/"
    objects = json.dumps(f"projects/_/buckets/{bucket}/objects/{prefix}", ensure_ascii=False)
    listed = json.dumps(prefix, ensure_ascii=False)
    listing = f"api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith({listed})"
    rule = {
        "availableResource": f"//storage.googleapis.com/projects/_/buckets/{bucket}",
        "availablePermissions": [_WRITES if writes else _READS],
        "availabilityCondition": {"expression": f"resource.name.startsWith({objects}) || {listing}"},
    }
    return {"accessBoundary": {"accessBoundaryRules": [rule]}}
