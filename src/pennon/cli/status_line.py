"""One line on a terminal that says what a command is doing, before it has any other progress to show."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

_STDERR = 2
_CLEARED_LINE = "\r\x1b[K"


class StatusLine:
    """The line, which each text replaces. Without a terminal, nothing is shown."""

    def __init__(self, terminal: TextIO | None) -> None:
        self._terminal = terminal

    def show(self, text: str) -> None:
        """Show a text in place of the last one."""
        self._write(f"{_CLEARED_LINE}{text} ...")

    def clear(self) -> None:
        """Clear the line, so that other output can follow."""
        self._write(_CLEARED_LINE)

    def _write(self, text: str) -> None:
        if self._terminal is not None:
            # The terminal may be closed before the command ends.
            with suppress(OSError):
                self._terminal.write(text)
                self._terminal.flush()


@contextmanager
def show_status(text: str) -> Iterator[StatusLine]:
    """Show a text while the block runs, until it shows another one. The line is cleared at the end."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield StatusLine(None)
        return
    # A file descriptor of its own: while Spark starts, that of stderr leads elsewhere.
    with os.fdopen(os.dup(_STDERR), "w") as terminal:
        line = StatusLine(terminal)
        line.show(text)
        try:
            yield line
        finally:
            line.clear()
