"""The command line: `pennon ls`, `pennon head prod.events`, and so on. See docs/guides/command-line.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        # Imported here, so that Ctrl-C during the imports prints no traceback.
        from pennon.cli.app import run

        return run(arguments)
    except KeyboardInterrupt:
        return _INTERRUPTED
