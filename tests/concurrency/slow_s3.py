"""An S3 server that can delay one request, like a slow network."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, Any

from tests.servers import CountingS3

if TYPE_CHECKING:
    from collections.abc import Iterable

PATIENCE = 25.0
"""The longest time for which a request is delayed, in seconds: clients give up after 30."""


class SlowS3(CountingS3):
    """moto's S3, which can delay the next PUT of a version of the manifest."""

    def __init__(self) -> None:
        super().__init__()
        self._armed = False
        self.held = Event()
        self.let_go = Event()

    def hold_next_commit(self) -> None:
        """Delay the next PUT of a version of the catalog's manifest until `let_go` is set."""
        self.held.clear()
        self.let_go.clear()
        self._armed = True

    def _serve(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        is_commit = environ["REQUEST_METHOD"] == "PUT" and "/__manifest/_versions/" in environ["PATH_INFO"]
        if self._armed and is_commit:
            self._armed = False
            self.held.set()
            self.let_go.wait(PATIENCE)
        return super()._serve(environ, start_response)
