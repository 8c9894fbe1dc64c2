"""The question before something is destroyed."""

from __future__ import annotations

import sys

import typer

from pennon.cli.failures import CommandFailure, ExitCode
from pennon.cli.terminal_text import one_line


def require_consent(question: str, *, yes: bool) -> None:
    """Go on only if `--yes` was given or the person at the terminal says so; else the command is refused."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CommandFailure(f"{one_line(question)} Nobody can be asked here: give --yes", ExitCode.REFUSED)
    try:
        agreed = typer.confirm(one_line(question), err=True)
    except (typer.Abort, EOFError) as error:
        if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        agreed = False
    if not agreed:
        raise CommandFailure("nothing was changed", ExitCode.REFUSED)
