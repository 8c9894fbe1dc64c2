"""A client that sends whatever it is told to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import urllib3


@dataclass(frozen=True)
class Answer:
    """What a server said."""

    status: int
    body: Any
    headers: Any

    @property
    def error(self) -> tuple[int, str]:
        """Return status and type of an error, which the error model must hold."""
        error = self.body["error"]
        assert set(error) == {"message", "type", "code"}
        assert error["code"] == self.status
        assert error["message"]
        return self.status, error["type"]

    @property
    def lance_error(self) -> tuple[int, int]:
        """Return status and code of an error of the Lance protocol, whose body must be the specification's."""
        assert set(self.body) == {"error", "code", "instance"}
        assert self.body["error"]
        return self.status, self.body["code"]


class Client:
    """Requests below `/iceberg/v1`."""

    def __init__(self, uri: str, **headers: str) -> None:
        self._base = f"{uri}/v1"
        self._headers = headers

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request; bytes are sent as they are, everything else as JSON."""
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        given = {**({} if raw is None else {"Content-Type": "application/json"}), **self._headers, **headers}
        answer = urllib3.request(method, self._base + path, body=raw, headers=given, retries=False, timeout=60.0)
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        content = json.loads(answer.data) if answer.data and is_json else answer.data or None
        return Answer(answer.status, content, answer.headers)

    def get(self, path: str, **headers: str) -> Answer:
        return self.call("GET", path, **headers)

    def post(self, path: str, body: Any) -> Answer:
        return self.call("POST", path, body)


def namespace_path(*names: str) -> str:
    """Return the path of a namespace."""
    return "/namespaces/" + quote("\x1f".join(names), safe="")


def table_path(*names: str) -> str:
    """Return the path of a table."""
    return f"{namespace_path(*names[:-1])}/tables/{quote(names[-1], safe='')}"


class LanceClient(Client):
    """Requests below `/v1`."""

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request; bytes are sent as Arrow IPC, everything else as JSON."""
        kind = {"Content-Type": "application/vnd.apache.arrow.stream"} if isinstance(body, bytes) else {}
        return super().call(method, path, body, **{**kind, **headers})
