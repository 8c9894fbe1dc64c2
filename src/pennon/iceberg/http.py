"""HTTP: a pool of connections, deadlines, bounded answers, back-off; redirects are never followed.

A request that changes something is sent again only if it is certain that the server has not applied it. Otherwise
UnknownOutcomeError is raised, and the caller has to load the object to find out.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    MaxRetryError,
    NameResolutionError,
    NewConnectionError,
    ProxyError,
    SSLError,
)

from pennon.errors import InternalError, ServiceUnavailableError
from pennon.iceberg.answers import BadAnswerError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon.iceberg.settings import IcebergSettings

_POOL_SIZE = 16
_CHUNK = 1 << 16
_THROTTLED = 429
_BUSY = {429, 502, 503, 504}
_REDIRECTS = range(300, 400)
_NOT_MODIFIED = 304
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 10.0
_LONGEST_RETRY_PAUSE_SECONDS = 2.0
_UNKNOWN_CODES = {int(ServiceUnavailableError.code), int(InternalError.code)}
_NOT_SENT = (NewConnectionError, ConnectTimeoutError, NameResolutionError, ProxyError)


class UnknownOutcomeError(ServiceUnavailableError):
    """It is not known whether the server applied a request."""


@dataclass(frozen=True)
class Answer:
    """The status and body of a server's answer."""

    status: int
    body: bytes


class _Deadline:
    """A connection whose answer begins within a time, however slowly its first bytes trickle in."""

    header_seconds = 60.0

    def getresponse(self) -> Any:
        timer = threading.Timer(self.header_seconds, _cut, (self.sock,))  # type: ignore[attr-defined]
        timer.daemon = True
        timer.start()
        try:
            return super().getresponse()  # type: ignore[misc]
        finally:
            timer.cancel()


def _cut(sock: socket.socket | None) -> None:
    with contextlib.suppress(OSError, AttributeError, ValueError):
        sock.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]


class Transport:
    """Sends requests to one server."""

    def __init__(self, settings: IcebergSettings) -> None:
        self._settings = settings
        self._pool = _pool(settings)

    def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None, *, repeatable: bool
    ) -> Answer:
        """Send a request, again after a pause if the server is busy; any status but those is for the caller.

        A request that is not `repeatable` is sent again only if it certainly was not acted on. Raises 17.
        """
        deadline = time.monotonic() + self._settings.retry_seconds
        pause = _FIRST_PAUSE_SECONDS
        while True:
            wait: float | None = None
            try:
                answer, wait = self._once(method, url, headers, body)
            except ServiceUnavailableError as error:
                if isinstance(error, UnknownOutcomeError) and not repeatable:
                    raise
                if time.monotonic() + pause > deadline:
                    raise
            else:
                if answer.status not in _BUSY or (answer.status != _THROTTLED and not repeatable):
                    return answer
                if time.monotonic() + max(wait or 0, pause) > deadline:
                    return answer
            time.sleep(max(wait or 0, random.uniform(pause / 2, pause)))  # noqa: S311 - jitter, not a secret
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def close(self) -> None:
        """Close all connections."""
        self._pool.clear()

    def _once(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[Answer, float | None]:
        where = f"{method} {url}"
        try:
            answer = self._pool.request(
                method,
                url,
                body=body,
                headers=dict(headers),
                redirect=False,
                retries=False,
                preload_content=False,
                decode_content=False,
            )
        except SSLError as error:
            raise BadAnswerError(f"{where}: no trusted TLS connection: {self._describe(error)}") from None
        except _NOT_SENT as error:
            raise ServiceUnavailableError(f"{where}: cannot connect: {self._describe(error)}") from None
        except (HTTPError, OSError, ValueError) as error:
            reason = error.reason if isinstance(error, MaxRetryError) else error
            raise UnknownOutcomeError(f"{where}: no answer: {self._describe(reason)}") from None
        try:
            content = self._read(answer, where)
        except (HTTPError, OSError, ValueError) as error:
            answer.close()
            raise UnknownOutcomeError(f"{where}: the answer broke off: {self._describe(error)}") from None
        except BaseException:
            answer.close()
            raise
        answer.release_conn()
        if answer.status in _REDIRECTS and answer.status != _NOT_MODIFIED:
            raise BadAnswerError(
                f"{where}: the server redirects ({answer.status}), which is not followed: "
                "name the final address in the property 'uri'"
            )
        return Answer(answer.status, content), _retry_after(answer.headers.get("Retry-After"))

    def _read(self, answer: urllib3.BaseHTTPResponse, where: str) -> bytes:
        """Return the body of an answer, within the limits of time and size."""
        if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise BadAnswerError(f"{where}: the answer is compressed, which was not asked for")
        largest, deadline = self._settings.max_answer_bytes, time.monotonic() + self._settings.read_seconds
        chunks: list[bytes] = []
        size = 0
        while chunk := answer.read1(_CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            if size > largest:
                raise BadAnswerError(f"{where}: the answer is larger than {largest} bytes (max_answer_bytes)")
            if time.monotonic() > deadline:
                raise UnknownOutcomeError(f"{where}: the answer takes longer than {self._settings.read_seconds:g} s")
        missing = answer.length_remaining
        if missing:
            raise UnknownOutcomeError(f"{where}: the answer broke off, {missing} bytes are missing")
        return b"".join(chunks)

    def _describe(self, error: BaseException | None) -> str:
        return self._settings.redacted(f"{type(error).__name__}: {error}")


def _pool(settings: IcebergSettings) -> urllib3.PoolManager:
    options: dict[str, Any] = {}
    if settings.uri.startswith("https") or (settings.oauth2_server_uri or "").startswith("https"):
        options = {
            "cert_reqs": "CERT_REQUIRED",
            "ca_certs": settings.ca_bundle,
            "cert_file": settings.client_certificate,
            "key_file": settings.client_key,
        }
    pool = urllib3.PoolManager(
        num_pools=4,
        maxsize=_POOL_SIZE,
        timeout=urllib3.Timeout(connect=settings.connect_seconds, read=settings.read_seconds),
        **{key: value for key, value in options.items() if value is not None},
    )

    class Plain(_Deadline, HTTPConnection):
        header_seconds = settings.read_seconds

    class Secure(_Deadline, HTTPSConnection):
        header_seconds = settings.read_seconds

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    pool.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}
    return pool


def _retry_after(value: str | None) -> float | None:
    """Return after how many seconds the server allows a retry, or None if it does not say."""
    if value is None:
        return None
    try:
        seconds = float(value) if value.strip().isdecimal() else parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(seconds, 0.0)


def pause_before_retry(attempt: int) -> None:
    """Sleep for a random time that grows with each attempt, so that clients do not retry in step."""
    longest = min(_FIRST_PAUSE_SECONDS * 2**attempt, _LONGEST_RETRY_PAUSE_SECONDS)
    time.sleep(random.uniform(0, longest))  # noqa: S311 - jitter, not a secret


def is_unknown_outcome(error: BaseException) -> bool:
    """Return True if the server may have applied a request: its answer was lost, or cannot be understood."""
    return int(getattr(error, "code", -1)) in _UNKNOWN_CODES
