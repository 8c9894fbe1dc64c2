"""Signatures for directories as Azure checks them, and Azurite behind such a check.

Azurite checks signatures for accounts, containers and blobs, but not for directories. `DirectoryGate` checks those by
the text that Microsoft documents for the version of the signature, and lets what is allowed pass to Azurite.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from urllib.parse import parse_qs, parse_qsl, quote, urlencode

import urllib3
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas
from werkzeug.wrappers import Request, Response

ACCOUNT = "devstoreaccount1"
KEY = base64.b64encode(b"the key of the account in tests!").decode()
_SIGNED = ("sp", "st", "se", None, "si", "sip", "spr", "sv", "sr", "", "ses", "rscc", "rscd", "rsce", "rscl", "rsct")
_PARAMETERS = {"comp", "restype", "prefix", "delimiter", "blockid", "marker"}
_OF_THE_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "date", "server"}
_NEEDS = {"GET": "r", "HEAD": "r", "PUT": "w", "POST": "w", "DELETE": "d"}
_FORWARDED = re.compile(r"content-type|content-length|range|if-.*|x-ms-.*", re.IGNORECASE)


@dataclass(frozen=True)
class SignedDirectory:
    """What a signature allows."""

    path: str
    permissions: str
    expires: float

    @classmethod
    def verify(cls, signature: str, container: str, path: str) -> SignedDirectory | None:
        """Return what a signature for one of the directories above a path allows, or None if it is for none."""
        given = {name: values[0] for name, values in parse_qs(signature).items()}
        if given.get("sr") != "d" or not given.get("sdd", "").isdecimal():
            return None
        parts = path.split("/")[: int(given["sdd"])]
        if len(parts) < int(given["sdd"]):
            return None
        directory = "/".join(parts)
        resource = f"/blob/{ACCOUNT}/{container}/{directory}"
        text = "\n".join(resource if name is None else given.get(name, "") for name in _SIGNED)
        wanted = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
        if not hmac.compare_digest(wanted, given.get("sig", "")):
            return None
        expires = datetime.strptime(given["se"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc).timestamp()
        return cls(directory, given["sp"], expires)

    def allows(self, need: str) -> bool:
        """Return True if the signature has a permission and is not expired."""
        return need in self.permissions and self.expires > time.time()


class DirectoryGate:
    """Lets requests with a signature for their directory pass to Azurite."""

    def __init__(self, azurite: str) -> None:
        self.refused: list[str] = []
        self._azurite = azurite
        self._pool = urllib3.PoolManager(maxsize=32, retries=False)
        self._own = generate_account_sas(
            ACCOUNT,
            KEY,
            ResourceTypes(service=True, container=True, object=True),
            AccountSasPermissions(read=True, write=True, delete=True, list=True, add=True, create=True),
            datetime.fromtimestamp(time.time() + 3600, timezone.utc),
        )

    def serve(self, request: Request) -> Response:
        """Answer one request."""
        query = request.query_string.decode()
        if not _is_allowed(request.method, request.path, query):
            self.refused.append(f"{request.method} {request.path}")
            return Response("<Error><Code>AuthorizationFailure</Code></Error>", 403)
        kept = urlencode([(name, value) for name, value in parse_qsl(query) if name in _PARAMETERS])
        headers = {name: value for name, value in request.headers.items() if _FORWARDED.fullmatch(name)}
        url = f"{self._azurite}{quote(request.path)}?{kept}&{self._own}"
        found = self._pool.request(request.method, url, headers=headers, body=request.get_data())
        answered = {name: value for name, value in found.headers.items() if name.lower() not in _OF_THE_CONNECTION}
        return Response(found.data, found.status, answered)


def _is_allowed(method: str, path: str, query: str) -> bool:
    _, _, container, *names = path.split("/")
    asked = {name: values[0] for name, values in parse_qs(query).items()}
    lists = asked.get("comp") == "list"
    found = SignedDirectory.verify(query, container, asked.get("prefix", "") if lists else "/".join(names))
    return found is not None and found.allows("l" if lists else _NEEDS[method])
