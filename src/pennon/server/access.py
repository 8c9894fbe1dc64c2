"""Decide who may send requests: only this machine, clients with the token, or the users of a policy."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pennon.errors import InvalidInputError
from pennon.server.loopback import is_loopback
from pennon.server.permissions.users import Users

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pennon.server.permissions.policy_file import PolicySource

TOKEN_VARIABLE = "PENNON_SERVER_TOKEN"  # noqa: S105 - the variable's name
_SHORTEST_TOKEN = 16
_SCHEME = "bearer "
_OWN_PAGE, _NO_PAGE = "same-origin", "none"


@dataclass(frozen=True)
class Access:
    """The rule by which requests are let in. The token never shows."""

    token: str | None = field(default=None, repr=False)
    users: Users | None = None
    """The users of a policy. Without them, there is one user, who may do everything."""

    def refusal(self, headers: Mapping[str, str], scheme: str) -> tuple[int, str, str] | None:
        """Return the status, type and message of a refusal, or None.

        If there are users, the caller has to authenticate the bearer token after that.
        """
        if self.users is not None:
            if not bearer_token(headers):
                return unauthenticated("A bearer token is needed, and none was given")
        elif self.token is not None:
            # Compared as bytes, in a time that says nothing of how much of it is right.
            if not hmac.compare_digest(bearer_token(headers).encode("utf-8", "replace"), self.token.encode()):
                return unauthenticated("A bearer token is needed, and none or a wrong one was given")
        # Without a token, a web page that a browser was tricked to load under a name of its own must not get in.
        elif not is_loopback(_host_of(headers.get("host", ""))):
            return 403, "ForbiddenException", "Without a token, only this machine is served, by a name of its own"
        if not is_own_page(headers, scheme):
            return 403, "ForbiddenException", "Web pages of other origins are not served"
        return None


def unauthenticated(message: str) -> tuple[int, str, str]:
    """Return the refusal of a request whose sender is not known."""
    return 401, "NotAuthorizedException", message


def bearer_token(headers: Mapping[str, str]) -> str:
    """Return the bearer token of a request, or an empty text."""
    given = headers.get("authorization", "")
    return given[len(_SCHEME) :].strip() if given[: len(_SCHEME)].lower() == _SCHEME else ""


def chosen(
    host: str, environment: Mapping[str, str], token_file: Path | None, policy: PolicySource | None = None
) -> Access:
    """Make the rule for an address to listen at; 13 unless it is loopback, or a token or a policy is given."""
    token = _token(environment, token_file)
    if policy is not None:
        return Access(token, Users(policy, token=token))
    if token is None and not is_loopback(host):
        raise InvalidInputError(
            f"Listening at {host!r} lets other machines in, which needs a token or a policy: set {TOKEN_VARIABLE}, or "
            "give --token-file or --policy"
        )
    return Access(token)


def is_own_page(headers: Mapping[str, str], scheme: str) -> bool:
    """Return True unless a browser says that a page of another origin sends the request.

    Only browsers send these headers, and a page cannot change them. Another port of the same host is another origin.
    A browser that says that the origin is the same knows it better than we do: behind a proxy, its scheme is another.
    """
    site = headers.get("sec-fetch-site", "").strip().lower()
    if site not in {"", _OWN_PAGE, _NO_PAGE}:
        return False
    origin = headers.get("origin")
    is_same = origin is None or origin.strip().lower() == f"{scheme}://{headers.get('host', '')}".lower()
    return is_same or site == _OWN_PAGE


def _token(environment: Mapping[str, str], token_file: Path | None) -> str | None:
    if token_file is not None:
        try:
            token, source = token_file.read_text(encoding="utf-8").strip(), f"The file {str(token_file)!r}"
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"The file of the token, {str(token_file)!r}, cannot be read") from error
    elif TOKEN_VARIABLE in environment:
        token, source = environment[TOKEN_VARIABLE].strip(), TOKEN_VARIABLE
    else:
        return None
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInputError(
            f"{source} holds no token: one is at least {_SHORTEST_TOKEN} printable ASCII characters, without spaces"
        )
    return token


def _host_of(header: str) -> str:
    """Return the host name in a Host header, without the port."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""
