"""Data, options and terminals for the tests of commands."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from tests.support import MODES

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = pa.table({"id": [1, 2, 3], "name": ["one", "two", None]})
_PATIENCE_SECONDS = 90


def mode_options(mode: str) -> list[str]:
    """Return the options that open a catalog in a mode."""
    return [part for key, value in MODES[mode].items() for part in ("--property", f"{key}={value}")]


class Terminal:
    """A command that runs on a terminal, and the person in front of it."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self._master = master
        self.seen = ""

    def wait_for(self, text: str) -> None:
        """Read until a text appears."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while text not in self.seen:
            assert self._read(deadline), f"the command ended without {text!r}: {self.seen!r}"

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def end(self) -> int:
        """Read to the end and return the exit code."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._read(deadline):
            pass
        return self.process.wait(_PATIENCE_SECONDS)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"nothing more came: {self.seen!r}"
        try:
            chunk = os.read(self._master, 65536)
        except OSError:
            # Linux raises this after the other end is closed.
            return False
        self.seen += chunk.decode(errors="replace")
        return bool(chunk)


@contextmanager
def terminal(*arguments: str, columns: int = 100, **variables: str) -> Iterator[Terminal]:
    """Run a command on a terminal of its own."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "40", **variables}
    process = subprocess.Popen(
        # The terminal controls the command, so that Ctrl-C reaches it.
        ["/usr/bin/setsid", "--ctty", sys.executable, "-m", "pennon", *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait()
        os.close(master)
