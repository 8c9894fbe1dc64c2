"""Who sends a request: the user of an API key or of a provider's token."""

from __future__ import annotations

import hashlib
import hmac
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pennon.errors import UnauthenticatedError
from pennon.server.permissions import keys, tokens
from pennon.server.permissions.rights import Principal

if TYPE_CHECKING:
    from pennon.server.permissions.policy import Policy
    from pennon.server.permissions.policy_file import PolicySource
    from pennon.server.permissions.policy_model import IssuerEntry, KeyEntry

TOKEN_USER = Principal("token")
"""The user of the single token of a server, who may do everything."""


class Users:
    """The users of a policy, and the one with the server's own token. Threads share it."""

    def __init__(self, source: PolicySource, *, token: str | None = None) -> None:
        self._source = source
        self._token_hash = None if token is None else _hash(token)
        self._seen: Policy | None = None
        self._keys: dict[str, KeyEntry] = {}
        self._verifiers: dict[str, tokens.TokenVerifier] = {}

    def authenticate(self, proof: str) -> Principal:
        """Return who a bearer token belongs to. May wait for a provider.

        Raises UnauthenticatedError for a token that is unknown, expired or not valid, ServiceUnavailableError if the
        keys of its provider cannot be fetched.
        """
        if self._token_hash is not None and hmac.compare_digest(_hash(proof), self._token_hash):
            return TOKEN_USER
        self._follow(self._source.current())
        if proof.startswith(keys.PREFIX):
            return self._user_of_key(proof)
        if tokens.looks_like_token(proof):
            verifier = self._verifiers.get(tokens.read_issuer(proof) or "")
            if verifier is not None:
                return verifier.verify(proof)
        raise _unknown()

    def _user_of_key(self, proof: str) -> Principal:
        parts = keys.split_key(proof)
        entry = None if parts is None else self._keys.get(parts[0])
        if parts is None or entry is None or not keys.is_secret_of(parts[1], entry.hash):
            raise _unknown()
        if entry.expires is not None and entry.expires <= datetime.now(timezone.utc):
            raise UnauthenticatedError(f"The key {entry.id} of {entry.user} expired on {entry.expires.isoformat()}")
        return Principal(entry.user)

    def _follow(self, policy: Policy) -> None:
        """Use the keys and issuers of a policy. Verifiers of issuers that stay the same keep what they fetched."""
        if policy is self._seen:
            return
        before = {one.issuer: one for one in self._verifiers.values()}
        self._keys = {entry.id: entry for entry in policy.keys}
        self._verifiers = {entry.issuer: _verifier(entry, before) for entry in policy.issuers}
        self._seen = policy


def _verifier(entry: IssuerEntry, before: dict[IssuerEntry, tokens.TokenVerifier]) -> tokens.TokenVerifier:
    return before.get(entry) or tokens.TokenVerifier(entry)


def _unknown() -> UnauthenticatedError:
    return UnauthenticatedError("The bearer token is unknown")


def _hash(text: str) -> bytes:
    """Return a hash to compare in a time that says nothing of the text, not even its length."""
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()
