"""Ask for confirmation before data is deleted."""

from __future__ import annotations

import sys

import typer

from pennon.cli.failures import CommandFailure, ExitCode
from pennon.cli.terminal_text import format_line


def require_consent(question: str, *, yes: bool) -> None:
    """Return if `--yes` was given or the user confirms. Raises CommandFailure otherwise."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CommandFailure(
            f"{format_line(question)} No terminal to ask for confirmation: use --yes", ExitCode.REFUSED
        )
    try:
        agreed = typer.confirm(format_line(question), err=True)
    except (typer.Abort, EOFError) as error:
        if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        agreed = False
    if not agreed:
        raise CommandFailure("nothing was changed", ExitCode.REFUSED)
