"""Tokens of OIDC providers: who sent a request, proven by a signature of a provider that the policy names."""

from __future__ import annotations

import base64
import binascii
import json
import logging
import re
import threading
import time
from typing import TYPE_CHECKING, Any

import urllib3
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from pennon.errors import ServiceUnavailableError, UnauthenticatedError
from pennon.server.permissions.policy_model import SUBJECT_PATTERN
from pennon.server.permissions.rights import Principal

if TYPE_CHECKING:
    from pennon.server.permissions.policy_model import IssuerEntry

FRESH_SECONDS = 600.0
"""How long keys are used before they are fetched again."""
RETRY_SECONDS = 10.0
"""The least time between two fetches, whatever tokens arrive."""
STALE_SECONDS = 24 * 3600.0
"""How long keys are used if the provider cannot be reached."""
_LONGEST_TOKEN = 16 << 10
_LARGEST_ANSWER = 1 << 20
_MOST_GROUPS = 1000
_FETCH_SECONDS = 5.0
_OK = 200
_TOKEN = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_SUBJECT = re.compile(SUBJECT_PATTERN)
_log = logging.getLogger(__name__)


def looks_like_token(text: str) -> bool:
    """Return True if a text has the form of a signed token."""
    return len(text) <= _LONGEST_TOKEN and _TOKEN.fullmatch(text) is not None


class TokenVerifier:
    """Verifies the tokens of one provider. Threads share it. It fetches nothing before the first token."""

    def __init__(self, issuer: IssuerEntry) -> None:
        self.issuer = issuer
        self._keys = _ProviderKeys(issuer)
        # Providers add headers of their own; critical ones are refused anyway.
        self._registry = JWSRegistry(algorithms=list(issuer.algorithms), strict_check_header=False)

    def verify(self, token: str) -> Principal:
        """Return who a token of this provider belongs to.

        Raises UnauthenticatedError unless it is valid, ServiceUnavailableError if the provider's keys are not known.
        """
        issuer = self.issuer
        try:
            keys = self._keys.for_token(_decode_part(token, 0).get("kid"))
            decoded = jwt.decode(token, keys, algorithms=list(issuer.algorithms), registry=self._registry)
            jwt.JWTClaimsRegistry(
                leeway=issuer.leeway_seconds,
                iss={"essential": True, "value": issuer.issuer},
                aud={"essential": True, "values": list(issuer.audience)},
                exp={"essential": True},
            ).validate(decoded.claims)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise UnauthenticatedError(f"The token of issuer {issuer.name!r} is not valid: {_reason(error)}") from error
        return self._principal(decoded.claims)

    def _principal(self, claims: dict[str, Any]) -> Principal:
        issuer = self.issuer
        name, groups = claims.get(issuer.user_claim), claims.get(issuer.groups_claim, [])
        if not isinstance(name, str) or not _SUBJECT.fullmatch(name):
            raise UnauthenticatedError(f"The token of issuer {issuer.name!r} has no usable claim {issuer.user_claim!r}")
        listed = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        known = [one for one in listed[:_MOST_GROUPS] if isinstance(one, str) and _SUBJECT.fullmatch(one)]
        return Principal(f"{issuer.name}:{name}", frozenset(f"{issuer.name}:{one}" for one in known))


class _ProviderKeys:
    """The public keys of a provider, fetched again when they are old or when a token names an unknown one."""

    def __init__(self, issuer: IssuerEntry) -> None:
        self._issuer = issuer
        self._keys: KeySet | None = None
        self._fetched_at = self._tried_at = -STALE_SECONDS
        self._lock = threading.Lock()

    def for_token(self, kid: object) -> KeySet:
        """Return the keys among which the one with this id should be."""
        keys, age = self._keys, time.monotonic() - self._fetched_at
        if keys is not None and age < FRESH_SECONDS and _has(keys, kid):
            return keys
        # A thread whose key is known does not wait while another one fetches.
        if self._lock.acquire(blocking=keys is None or not _has(keys, kid)):
            try:
                self._refresh(kid)
            finally:
                self._lock.release()
        if self._keys is None or time.monotonic() - self._fetched_at > STALE_SECONDS:
            raise ServiceUnavailableError(
                f"The keys of issuer {self._issuer.name!r} cannot be fetched; try again later"
            )
        return self._keys

    def _refresh(self, kid: object) -> None:
        now = time.monotonic()
        is_fresh = self._keys is not None and now - self._fetched_at < FRESH_SECONDS and _has(self._keys, kid)
        if is_fresh or now - self._tried_at < RETRY_SECONDS:
            return
        self._tried_at = now
        try:
            self._keys = _import_keys(_fetch(self._issuer.jwks or self._configured_url()))
            self._fetched_at = time.monotonic()
        except (urllib3.exceptions.HTTPError, JoseError, ValueError, TypeError, KeyError) as error:
            _log.error("the keys of issuer %r cannot be fetched: %s", self._issuer.name, error)

    def _configured_url(self) -> str:
        """Return the URL of the keys in the provider's configuration. Raises ValueError if it is not to be trusted."""
        issuer = self._issuer.issuer
        found = _fetch(issuer.rstrip("/") + "/.well-known/openid-configuration")
        if found.get("issuer") != issuer:
            raise ValueError(f"the configuration is that of {found.get('issuer')!r}")
        url = found.get("jwks_uri")
        if not isinstance(url, str) or url.partition(":")[0] != issuer.partition(":")[0]:
            raise ValueError(f"the configuration has no usable 'jwks_uri': {url!r}")
        return url


def read_issuer(token: str) -> str | None:
    """Return the issuer that a token names. Nothing is proven yet."""
    try:
        found = _decode_part(token, 1).get("iss")
    except ValueError:
        return None
    return found if isinstance(found, str) else None


def _decode_part(token: str, number: int) -> dict[str, Any]:
    part = token.split(".")[number]
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, RecursionError) as error:
        raise ValueError("it cannot be decoded") from error
    if not isinstance(found, dict):
        raise ValueError("it holds no object")  # noqa: TRY004 - a fault of the token, not of the caller
    return found


def _fetch(url: str) -> dict[str, Any]:
    with urllib3.request(
        "GET", url, timeout=_FETCH_SECONDS, retries=False, redirect=False, preload_content=False
    ) as answer:
        content = answer.read(_LARGEST_ANSWER + 1)
        status = answer.status
    if status != _OK or len(content) > _LARGEST_ANSWER:
        raise ValueError(f"{url} answered with the status {status} and {len(content)} bytes")
    found = json.loads(content)
    if not isinstance(found, dict):
        raise ValueError(f"{url} answered without an object")  # noqa: TRY004 - a fault of the provider
    return found


def _import_keys(found: dict[str, Any]) -> KeySet:
    """Return the keys for signatures. Keys of kinds that nobody here knows are left out."""
    usable = [one for one in found["keys"] if one.get("kty") in {"RSA", "EC", "OKP"} and one.get("use") != "enc"]
    keys: KeySet = KeySet.import_key_set({"keys": usable})
    return keys


def _has(keys: KeySet, kid: object) -> bool:
    return kid is None or any(key.kid == kid for key in keys)


def _reason(error: Exception) -> str:
    """Return why a token is not valid, without any part of it."""
    return str(getattr(error, "error", None) or type(error).__name__)
