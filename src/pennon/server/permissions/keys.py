"""API keys: made once, shown once, and kept as salted hashes.

A key has 256 random bits, so a fast hash is enough: nobody can try all keys. The salt keeps two files from showing that
they hold the same key.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field

PREFIX = "pnk_"
_KEY = re.compile(PREFIX + r"([0-9a-f]{16})_([0-9a-f]{64})")
_ID_BYTES, _SECRET_BYTES, _SALT_BYTES = 8, 32, 16
HASH_PATTERN = r"^sha256:[0-9a-f]{32}:[0-9a-f]{64}$"
ID_PATTERN = r"^[0-9a-f]{16}$"


@dataclass(frozen=True)
class ApiKey:
    """A new key. Its text is shown once."""

    id: str
    hash: str
    text: str = field(repr=False)

    def line(self, user: str, expires: str | None = None) -> str:
        """Return the line for the list `keys` of a policy. It does not contain the key."""
        end = "" if expires is None else f", expires: {expires}"
        return f'- {{user: {user}, id: "{self.id}", hash: "{self.hash}"{end}}}'


def create_key() -> ApiKey:
    """Return a new key."""
    number, secret, salt = (
        secrets.token_hex(_ID_BYTES),
        secrets.token_hex(_SECRET_BYTES),
        secrets.token_hex(_SALT_BYTES),
    )
    return ApiKey(number, f"sha256:{salt}:{_digest(salt, secret)}", f"{PREFIX}{number}_{secret}")


def split_key(text: str) -> tuple[str, str] | None:
    """Return the id and the secret of a key, or None if the text is no key."""
    found = _KEY.fullmatch(text)
    return None if found is None else (found[1], found[2])


def is_secret_of(secret: str, stored: str) -> bool:
    """Return True if the secret of a key belongs to a stored hash. Takes the same time for every secret."""
    _, salt, digest = stored.split(":")
    return hmac.compare_digest(_digest(salt, secret), digest)


def _digest(salt: str, secret: str) -> str:
    return hashlib.sha256(bytes.fromhex(salt) + secret.encode()).hexdigest()
