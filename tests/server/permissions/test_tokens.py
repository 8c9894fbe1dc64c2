"""Tokens of a provider: which are accepted, and how its keys are fetched. The provider is a server of this process."""

from __future__ import annotations

import base64
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

from pennon.errors import ServiceUnavailableError, UnauthenticatedError
from pennon.server.permissions import tokens
from pennon.server.permissions.policy import parse_policy
from pennon.server.permissions.rights import Principal
from pennon.server.permissions.users import Users

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST = RSAKey.generate_key(2048, {"kid": "first"})
SECOND = ECKey.generate_key("P-256", {"kid": "second"})
FOREIGN = RSAKey.generate_key(2048, {"kid": "first"})


class Provider:
    """A provider of tokens, with the keys that it publishes now."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys: list[RSAKey | ECKey] = [FIRST]
        self.fetches = 0
        self.is_down = False
        self.configuration = {"issuer": url, "jwks_uri": f"{url}/keys"}

    def claims(self, **changed: object) -> dict[str, object]:
        """Return valid claims with some changed; None leaves one out."""
        now = int(time.time())
        claims = {"iss": self.url, "aud": "pennon", "sub": "17", "iat": now, "exp": now + 300, **changed}
        return {name: value for name, value in claims.items() if value is not None}

    def token(
        self, key: RSAKey | ECKey = FIRST, alg: str = "RS256", kid: str | None = "first", **changed: object
    ) -> str:
        """Return a token with a signature."""
        header = {"alg": alg, **({} if kid is None else {"kid": kid})}
        return jwt.encode(header, self.claims(**changed), key, algorithms=[alg])


@pytest.fixture
def provider() -> Iterator[Provider]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            found: object = provider.configuration
            if self.path == "/keys":
                provider.fetches += 1
                found = KeySet(list(provider.keys)).as_dict(private=False)
            self.send_response(503 if provider.is_down else 200)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider = Provider(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield provider
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def users(provider) -> Users:
    policy = parse_policy(
        f"""
issuers:
  - name: corp
    issuer: {provider.url}
    audience: [pennon, other]
    algorithms: [RS256, ES256]
    leeway_seconds: 30
""",
        "p.yaml",
    )
    return Users(_Fixed(policy))


class _Fixed:
    def __init__(self, policy):
        self._policy = policy

    def current(self):
        return self._policy


def test_a_valid_token_names_its_user_and_groups(provider, users):
    assert users.authenticate(provider.token()) == Principal("corp:17")
    assert users.authenticate(provider.token(aud=["x", "other"])) == Principal("corp:17")
    assert users.authenticate(provider.token(kid=None)) == Principal("corp:17")
    found = users.authenticate(provider.token(groups=["staff", "a b", 7, "bad\nname", ""]))
    assert found == Principal("corp:17", frozenset({"corp:staff", "corp:a b"}))
    assert provider.fetches == 1


def unsigned(claims: dict[str, object], header: dict[str, object]) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in (header, claims)]
    return ".".join([*parts, ""])


def keyed(claims: dict[str, object], secret: bytes) -> str:
    """Return a token with a signature by HMAC."""
    content = unsigned(claims, {"alg": "HS256", "kid": "first"})[:-1]
    digest = hmac.digest(secret, content.encode(), "sha256")
    return f"{content}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def test_tokens_that_prove_nothing_are_refused(provider, users):
    now = int(time.time())
    good = provider.token()
    header, claims, signature = good.split(".")
    other = base64.urlsafe_b64encode(json.dumps(provider.claims(sub="root")).encode()).decode().rstrip("=")
    refused = {
        "expired": provider.token(exp=now - 31),
        "no expiry": provider.token(exp=None),
        "text as expiry": provider.token(exp="never"),
        "not valid yet": provider.token(nbf=now + 300),
        "issued in the future": provider.token(iat=now + 300),
        "audience": provider.token(aud="somebody"),
        "no audience": provider.token(aud=None),
        "issuer": provider.token(iss="https://elsewhere.example.com"),
        "no issuer": provider.token(iss=None),
        "wrong key": provider.token(FOREIGN),
        "unknown key": provider.token(FOREIGN, kid="third"),
        "algorithm that is not allowed": provider.token(alg="RS512"),
        "alg none": unsigned(provider.claims(), {"alg": "none"}),
        "alg None": unsigned(provider.claims(), {"alg": "None", "kid": "first"}),
        "none with a signature": f"{unsigned(provider.claims(), {'alg': 'none'})}{signature}",
        "public key as secret": keyed(provider.claims(), FIRST.as_pem(private=False)),
        "changed claims": f"{header}.{other}.{signature}",
        "cut signature": good[:-8],
        "no signature": f"{header}.{claims}.",
        "critical header": unsigned(provider.claims(), {"alg": "RS256", "kid": "first", "crit": ["x"], "x": 1})
        + signature,
        "five parts": f"{good}.a.b",
        "no user": provider.token(sub=None),
        "number as user": provider.token(sub=17),
        "user with a line break": provider.token(sub="a\nb"),
        "empty user": provider.token(sub=""),
    }
    for why, token in refused.items():
        # ``why`` is shown where this fails.
        with pytest.raises(UnauthenticatedError) as caught:
            users.authenticate(token)
        assert not any(part in str(caught.value) for part in token.split(".") if len(part) > 8), why
    assert users.authenticate(good) == Principal("corp:17")


def test_leeway_is_for_clocks(provider, users):
    assert users.authenticate(provider.token(exp=int(time.time()) - 5)) == Principal("corp:17")


def test_new_keys_are_fetched_when_a_token_names_one(provider, users, monkeypatch):
    assert users.authenticate(provider.token()) == Principal("corp:17")
    provider.keys = [SECOND]
    late = provider.token(SECOND, alg="ES256", kid="second")
    # Tokens with made-up keys do not make the server ask the provider again and again.
    for number in range(20):
        with pytest.raises(UnauthenticatedError):
            users.authenticate(provider.token(FOREIGN, kid=f"made-up-{number}"))
    assert provider.fetches == 1
    monkeypatch.setattr(tokens, "RETRY_SECONDS", 0.0)
    assert users.authenticate(late) == Principal("corp:17")
    assert provider.fetches == 2
    with pytest.raises(UnauthenticatedError):
        users.authenticate(provider.token())


def test_keys_that_are_old_are_fetched_again(provider, users, monkeypatch):
    users.authenticate(provider.token())
    provider.keys = [SECOND]
    monkeypatch.setattr(tokens, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(tokens, "FRESH_SECONDS", 0.0)
    with pytest.raises(UnauthenticatedError):
        users.authenticate(provider.token())


def test_a_provider_that_is_down_is_no_reason_to_refuse_its_users(provider, users, monkeypatch):
    monkeypatch.setattr(tokens, "RETRY_SECONDS", 0.0)
    provider.is_down = True
    with pytest.raises(ServiceUnavailableError, match="'corp' cannot be fetched"):
        users.authenticate(provider.token())
    provider.is_down = False
    assert users.authenticate(provider.token()) == Principal("corp:17")
    provider.is_down = True
    monkeypatch.setattr(tokens, "FRESH_SECONDS", 0.0)
    assert users.authenticate(provider.token()) == Principal("corp:17")
    monkeypatch.setattr(tokens, "STALE_SECONDS", 0.0)
    with pytest.raises(ServiceUnavailableError):
        users.authenticate(provider.token())


@pytest.mark.parametrize("changed", [{"issuer": "https://evil.example.com"}, {"jwks_uri": "file:///etc/passwd"}])
def test_a_configuration_that_is_not_the_providers_is_not_used(provider, users, changed):
    provider.configuration |= changed
    with pytest.raises(ServiceUnavailableError):
        users.authenticate(provider.token())
    assert provider.fetches == 0
