"""Data, options and terminals for the tests of commands."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from tests.support import MODES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

ROWS = pa.table({"id": [1, 2, 3], "name": ["one", "two", None]})
_PATIENCE_SECONDS = 90
_LINES = 40


def mode_options(mode: str) -> list[str]:
    """Return the options that open a catalog in a mode."""
    return [part for key, value in MODES[mode].items() for part in ("--property", f"{key}={value}")]


class Terminal:
    """A command that runs on a terminal, and the person in front of it."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self._master = master
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.patience = _PATIENCE_SECONDS
        self.seen = ""

    def wait_for(self, text: str) -> None:
        """Read until a text appears."""
        deadline = time.monotonic() + self.patience
        while text not in self.seen:
            assert self._read(deadline), f"the command ended without {text!r}: {self.seen!r}"

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def end(self) -> int:
        """Read to the end and return the exit code."""
        deadline = time.monotonic() + self.patience
        while self._read(deadline):
            pass
        return self.process.wait(self.patience)

    def read_more(self) -> bool:
        """Read what comes next. Returns False if the command has ended."""
        return self._read(time.monotonic() + self.patience)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"nothing more came: {self.seen!r}"
        try:
            chunk = os.read(self._master, 65536)
        except OSError:
            # Linux raises this after the other end is closed.
            return False
        self.seen += self._decoder.decode(chunk)
        return bool(chunk)


@contextmanager
def terminal(*arguments: str, columns: int = 100, **variables: str) -> Iterator[Terminal]:
    """Run a command of `pennon` on a terminal of its own."""
    command = [sys.executable, "-m", "pennon", *arguments]
    with open_terminal(command, os.environ, columns, **variables) as opened:
        yield opened


@contextmanager
def open_terminal(
    command: list[str],
    environment: Mapping[str, str],
    columns: int = 100,
    folder: Path | None = None,
    **variables: str,
) -> Iterator[Terminal]:
    """Run a program on a terminal of its own."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, columns, 0, 0))
    size = {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(_LINES)}
    process = subprocess.Popen(
        # The terminal controls the program, so that Ctrl-C reaches it.
        ["/usr/bin/setsid", "--ctty", *command],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**environment, **size, **variables},
        cwd=folder,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait()
        os.close(master)
