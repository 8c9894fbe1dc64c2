"""HTTP: a pool of connections, deadlines, bounded answers, back-off; redirects are never followed.

A request that changes something is sent again only if it is certain that the server has not applied it, or that it
recognizes the repetition. Otherwise UnknownOutcomeError is raised, and the caller has to load the object to find out.
"""

from __future__ import annotations

import contextlib
import io
import random
import socket
import threading
import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Protocol

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

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from pennon.http_settings import HttpSettings

_POOL_SIZE = 16
_CHUNK = 1 << 16
_OK = 200
_THROTTLED = 429
_BUSY = {429, 502, 503, 504}
_SUCCESSES = range(200, 300)
_REDIRECTS = range(300, 400)
_NOT_MODIFIED = 304
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 10.0
_LONGEST_RETRY_PAUSE_SECONDS = 2.0
_UNKNOWN_CODES = {int(ServiceUnavailableError.code), int(InternalError.code)}
_NOT_SENT = (NewConnectionError, ConnectTimeoutError, NameResolutionError, ProxyError)


class BadAnswerError(InternalError):
    """The server's answer is not what the protocol says."""


class UnknownOutcomeError(ServiceUnavailableError):
    """It is not known whether the server applied a request."""


@dataclass(frozen=True)
class Answer:
    """A server's answer. The body of a streamed answer is empty; `stream` has it."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: AnswerStream | None = None

    @property
    def is_success(self) -> bool:
        """Return True if the server did what it was asked."""
        return self.status in _SUCCESSES


class StreamedBody(Protocol):
    """The body of a request that is sent in chunks."""

    @property
    def can_repeat(self) -> bool:
        """Whether it can be sent once more: it can be read again from its start, or nothing was read yet."""

    def chunks(self) -> Iterable[bytes]:
        """Return its bytes, from the start."""


class AnswerStream(io.RawIOBase):
    """The body of an answer, read while it arrives. Closing it gives the connection back, or ends it."""

    def __init__(self, answer: urllib3.BaseHTTPResponse, where: str, describe: Callable[[BaseException], str]) -> None:
        self._answer = answer
        self._where = where
        self._describe = describe

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, fewer only at the end. Raises UnknownOutcomeError if the answer breaks off."""
        wanted = size if size >= 0 else None
        try:
            content = self._answer.read(wanted)
        except (HTTPError, OSError, ValueError) as error:
            raise UnknownOutcomeError(f"{self._where}: the answer broke off: {self._describe(error)}") from None
        missing = self._answer.length_remaining
        if missing and (wanted is None or len(content) < wanted):
            raise UnknownOutcomeError(f"{self._where}: the answer broke off, {missing} bytes are missing")
        return content

    def close(self) -> None:
        """Close the connection, unless the answer was read to its end."""
        if not self.closed:
            self._answer.close()
        super().close()


class _Deadline:
    """A connection whose answer begins within a time, however slowly its first bytes trickle in."""

    header_seconds = 60.0

    def getresponse(self) -> Any:  # noqa: ANN401 - the answer of either kind of connection
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

    def __init__(self, settings: HttpSettings) -> None:
        self._settings = settings
        self._pool = _pool(settings)

    def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | StreamedBody | None = None,
        *,
        repeatable: bool | Callable[[], bool],
        refusals: Collection[int] = frozenset({_THROTTLED}),
        streams: bool = False,
    ) -> Answer:
        """Send a request, again after a pause if the server is busy; any status but those is for the caller.

        A request that is not `repeatable` is sent again only if it certainly was not acted on: the server cannot be
        reached, or answers one of the `refusals`, other than 429 only together with Retry-After. `streams` leaves the
        body of a successful answer to be read by the caller. Raises ServiceUnavailableError, and UnknownOutcomeError if
        the server may have acted on the request.
        """
        deadline = time.monotonic() + self._settings.retry_seconds
        pause = _FIRST_PAUSE_SECONDS

        def may_repeat() -> bool:
            return repeatable() if callable(repeatable) else repeatable

        while True:
            wait: float | None = None
            try:
                answer, wait = self._once(method, url, headers, body, streams=streams)
            except ServiceUnavailableError as error:
                if time.monotonic() + pause > deadline or not can_repeat(body):
                    raise
                if isinstance(error, UnknownOutcomeError) and not may_repeat():
                    raise
            else:
                refused = answer.status in refusals and (answer.status == _THROTTLED or wait is not None)
                if answer.status not in _BUSY or not can_repeat(body) or not (refused or may_repeat()):
                    return answer
                if time.monotonic() + max(wait or 0, pause) > deadline:
                    return answer
            time.sleep(max(wait or 0, random.uniform(pause / 2, pause)))  # noqa: S311 - jitter, not a secret
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def close(self) -> None:
        """Close all connections."""
        self._pool.clear()

    def _once(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | StreamedBody | None, *, streams: bool
    ) -> tuple[Answer, float | None]:
        where = f"{method} {url}"
        try:
            answer = self._pool.request(
                method,
                url,
                body=body if isinstance(body, bytes) or body is None else body.chunks(),
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
        if streams and answer.status == _OK:
            _require_plain(answer, where)
            return Answer(_OK, b"", answer.headers, AnswerStream(answer, where, self._describe)), None
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
        return Answer(answer.status, content, answer.headers), _retry_after(answer.headers.get("Retry-After"))

    def _read(self, answer: urllib3.BaseHTTPResponse, where: str) -> bytes:
        """Return the body of an answer, within the limits of time and size."""
        _require_plain(answer, where)
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


def can_repeat(body: bytes | StreamedBody | None) -> bool:
    """Return True if a body can be sent again."""
    return body is None or isinstance(body, bytes) or body.can_repeat


def _require_plain(answer: urllib3.BaseHTTPResponse, where: str) -> None:
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        answer.close()
        raise BadAnswerError(f"{where}: the answer is compressed, which was not asked for")


def _pool(settings: HttpSettings) -> urllib3.PoolManager:
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
        **{key: value for key, value in options.items() if value is not None},  # type: ignore[arg-type]
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
