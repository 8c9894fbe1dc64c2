"""Report errors: one line on stderr, and an exit code."""

from __future__ import annotations

import os
import re
import sys
import traceback
from enum import IntEnum
from typing import TYPE_CHECKING

from pennon.cli.secrets import scrub
from pennon.cli.terminal_text import escape_controls, format_line
from pennon.debug_text import remove_debug_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


class ExitCode(IntEnum):
    """The exit codes of commands."""

    DONE = 0
    INTERNAL = 1
    BAD_INPUT = 2
    NOT_FOUND = 3
    CONFLICT = 4
    UNSUPPORTED = 5
    REFUSED = 6
    UNREACHABLE = 7
    DENIED = 8
    CHECKS_FAILED = 9
    INTERRUPTED = 130
    PIPE_CLOSED = 141


class CommandFailure(Exception):
    """A command fails for the reason in the message."""

    def __init__(self, message: str, code: ExitCode = ExitCode.BAD_INPUT) -> None:
        super().__init__(message)
        self.code = code


class PipeClosed(Exception):
    """The reader of the output closed the pipe."""


# The codes of the SDK's errors.
_BY_ERROR = {
    0: ExitCode.UNSUPPORTED,
    1: ExitCode.NOT_FOUND,
    2: ExitCode.CONFLICT,
    3: ExitCode.REFUSED,
    4: ExitCode.NOT_FOUND,
    5: ExitCode.CONFLICT,
    6: ExitCode.NOT_FOUND,
    7: ExitCode.CONFLICT,
    8: ExitCode.NOT_FOUND,
    9: ExitCode.CONFLICT,
    10: ExitCode.NOT_FOUND,
    11: ExitCode.NOT_FOUND,
    12: ExitCode.NOT_FOUND,
    13: ExitCode.BAD_INPUT,
    14: ExitCode.CONFLICT,
    15: ExitCode.DENIED,
    16: ExitCode.DENIED,
    17: ExitCode.UNREACHABLE,
    19: ExitCode.REFUSED,
    20: ExitCode.BAD_INPUT,
    21: ExitCode.UNREACHABLE,
    22: ExitCode.NOT_FOUND,
    23: ExitCode.CONFLICT,
}
# Texts of errors that mean that a store does not respond.
_UNREACHABLE = re.compile(
    r"error sending request|connection (refused|reset|closed)|dns error|failed to lookup|timed out|trying to connect",
    re.IGNORECASE,
)
_LONGEST = 600


def exit_code(error: BaseException) -> ExitCode:
    """Return the exit code for an error."""
    if isinstance(error, CommandFailure):
        return error.code
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    if isinstance(error, PipeClosed):
        return ExitCode.PIPE_CLOSED
    if hasattr(error, "format_message"):
        return ExitCode.BAD_INPUT
    if isinstance(error, PermissionError):
        return ExitCode.DENIED
    code = exit_code_for(getattr(error, "code", None)) if _is_sdk_error(error) else ExitCode.INTERNAL
    if code is ExitCode.INTERNAL and any(_UNREACHABLE.search(str(one)) for one in _chain(error)):
        return ExitCode.UNREACHABLE
    return code


def exit_code_for(code: int | None) -> ExitCode:
    """Return the exit code for the code of an SDK error."""
    return ExitCode.INTERNAL if code is None else _BY_ERROR.get(int(code), ExitCode.INTERNAL)


def report_failure(error: BaseException, *, secrets: Collection[str], debug: bool) -> ExitCode:
    """Write an error to stderr, without secrets, and return the exit code."""
    code = exit_code(error)
    if code is ExitCode.PIPE_CLOSED:
        return code
    if debug:
        shown = scrub("".join(traceback.format_exception(error)), secrets)
        sys.stderr.write("".join(f"{escape_controls(line)}\n" for line in shown.splitlines()))
    line = format_line(scrub(_message(error), secrets))
    if len(line) > _LONGEST:
        line = line[: _LONGEST - 1] + "…"
    if code is ExitCode.INTERNAL and not debug:
        line += " (--debug shows more)"
    sys.stderr.write(_colour(f"Error: {line}") + "\n")
    return code


def _message(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if hasattr(error, "format_message"):
        context = getattr(error, "ctx", None)
        text = str(error.format_message())
        return text if context is None else f"{_end_sentence(text)} See '{context.command_path} --help'."
    if isinstance(error, PermissionError):
        return f"Permission denied: {str(error.filename)!r}"
    text = remove_debug_text(str(error))
    if isinstance(error, CommandFailure) or _is_sdk_error(error):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _end_sentence(text: str) -> str:
    ended = text.rstrip(". ")
    return ended if ended.endswith("?") else f"{ended}."


def _is_sdk_error(error: BaseException) -> bool:
    # By the module's name, so that reporting a bad option does not import the SDK.
    return any(kind.__module__ == "lance_namespace.errors" for kind in type(error).__mro__)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _colour(line: str) -> str:
    if not sys.stderr.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return line
    head, _, rest = line.partition(" ")
    return f"\x1b[1;31m{head}\x1b[0m {rest}"
