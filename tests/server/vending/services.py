"""Services that make credentials, started by the tests in this process."""

from __future__ import annotations

import io
import re
import threading
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from werkzeug.serving import make_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed.wsgi import WSGIApplication

ARN = "arn:aws:iam::123456789012:role/tables"
_EXPIRATION = re.compile(rb"(?<=<Expiration>)[^<]+")
_KEY = re.compile(rb"(?<=<AccessKeyId>)[^<]+")


@contextmanager
def serve_locally(app: WSGIApplication) -> Iterator[str]:
    """Serve an application by threads until the end of the block, and yield its URL."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Sts:
    """moto's STS, which records what is sent to it and which keys it makes."""

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import create_backend_app

        self._app = create_backend_app("sts")
        self.sent: list[dict[str, str]] = []
        self.keys: list[str] = []
        self.valid_for: timedelta | None = None
        """How long credentials are valid, if not as long as asked for."""
        self.is_down = False
        self.url = ""

    def serve(self, environ, start_response):
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        self.sent.append({name: values[0] for name, values in parse_qs(body.decode()).items()})
        if self.is_down:
            start_response("400 Bad Request", [])
            return [b""]
        environ["wsgi.input"] = io.BytesIO(body)
        answer = b"".join(self._app(environ, lambda status, headers: start_response(status, _without_length(headers))))
        self.keys += [found.decode() for found in _KEY.findall(answer)]
        if self.valid_for is not None:
            expires = datetime.now(timezone.utc) + self.valid_for
            answer = _EXPIRATION.sub(expires.strftime("%Y-%m-%dT%H:%M:%S.000Z").encode(), answer)
        return [answer]


def _without_length(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [one for one in headers if one[0].lower() != "content-length"]
