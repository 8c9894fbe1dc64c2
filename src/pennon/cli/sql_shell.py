"""The shell of `pennon sql`: prompts, editing, history and completion."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pennon.cli.failures import report_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from pennon.cli.session import Session
    from pennon.cli.sql_runner import StatementRunner

_PROMPT = "pennon> "
_MORE = "   ...> "
_QUIT = {"\\q", "exit", "quit"}
_HELP = """\
A statement ends with a semicolon and may have several lines. Tab completes keywords and names.
Ctrl-C cancels a statement. \\q, exit or Ctrl-D quits. docs/guides/spark-sql.md lists the statements."""
_KEYWORDS = """
ALTER TABLE AND AS ASC AT BETWEEN BY CASE CAST COLUMN COUNT CREATE CROSS DELETE DESC DESCRIBE DISTINCT DROP DROPPED ELSE
END EXISTS EXPLAIN FALSE FROM FULL GROUP HAVING IF IN INDEX INNER INSERT INTERVAL INTO IS JOIN LEFT LIKE LIMIT MERGE
NAMESPACE NAMESPACES NOT NULL OFFSET ON OPTIMIZE OR ORDER OUTER OVER OVERWRITE PARTITION PURGE RENAME RIGHT SELECT SET
SHOW TABLES TEMPORARY THEN TIMESTAMP TO TRUE TRUNCATE UNDROP UNION UPDATE USING VACUUM VALUES VERSION VIEW WHEN WHERE
WITH
"""
_LONGEST_HISTORY = 2000
_MOST_NAMES = 5000


class SqlShell:
    """Reads statements from a terminal and runs them until the user quits."""

    def __init__(self, runner: StatementRunner, session: Session) -> None:
        self._runner = runner
        self._session = session
        self._completer = SqlCompleter(self._find_names)
        self._history = History.open(os.environ)
        if self._history is not None:
            self._history.complete_with(self._completer)

    def run(self) -> None:
        """Read and run statements. Errors are shown in one line and do not end the shell."""
        print("A statement ends with ;  Help is \\?  Quit with \\q")  # noqa: T201 - the shell's greeting
        text = ""
        while True:
            try:
                line = input(_MORE if text else _PROMPT)
            except EOFError:
                sys.stdout.write("\n")
                return
            except KeyboardInterrupt as stop:
                self._continue_after(stop)
                text = ""
                continue
            word = line.strip().rstrip(";").strip()
            if not text and word in _QUIT:
                return
            if not text and word in {"\\?", "help"}:
                sys.stdout.write(_HELP + "\n")
                continue
            text = self._run_complete(f"{text}\n{line}" if text else line)

    def _run_complete(self, text: str) -> str:
        """Run the statements that are complete, and return the text that is not."""
        from pennon.spark.statements.splitting import split_statements

        statements, rest = split_statements(text)
        for statement in statements:
            if self._history is not None:
                self._history.add(statement)
            try:
                self._runner.run(statement)
            except KeyboardInterrupt as stop:
                self._continue_after(stop)
                return ""
            except BrokenPipeError:
                raise
            except Exception as error:  # noqa: BLE001 - every error is shown, and the next statement may be typed
                report_failure(error, secrets=self._session.hidden, debug=self._session.debug)
            finally:
                self._completer.forget()
        return rest

    def _continue_after(self, stop: KeyboardInterrupt) -> None:
        """Begin a new line after Ctrl-C. SIGTERM, which is another class of interrupt, ends the shell."""
        if type(stop) is not KeyboardInterrupt:
            raise stop
        sys.stdout.write("\n")

    def _find_names(self) -> list[str]:
        """Return the names of tables, and those of namespaces with a dot, as statements write them."""
        from itertools import islice

        from pennon.catalog_pages import iterate_all_tables, iterate_namespaces
        from pennon.identifiers import ROOT, quote_identifier

        catalog = self._runner.lake.catalog
        namespaces = islice(iterate_namespaces(catalog, ROOT, recursive=True), _MOST_NAMES)
        tables = islice(iterate_all_tables(catalog, ROOT), _MOST_NAMES)
        return [f"{quote_identifier(one)}." for one in namespaces] + [quote_identifier(one) for one in tables]


class SqlCompleter:
    """Completes keywords and names, as readline asks for them. Names are listed once for each statement."""

    def __init__(self, find_names: Callable[[], list[str]]) -> None:
        self._find_names = find_names
        self._keywords = _KEYWORDS.split()
        self._names: list[str] | None = None
        self._found: list[str] = []

    def __call__(self, text: str, state: int) -> str | None:
        """Return one of the completions of a word, or None after the last."""
        if state == 0:
            self._found = self.complete(text)
        return self._found[state] if state < len(self._found) else None

    def complete(self, text: str) -> list[str]:
        """Return the completions of a word: keywords in its case, and names up to the next dot."""
        if self._names is None:
            try:
                self._names = self._find_names()
            except Exception:  # noqa: BLE001 - completion must not print errors
                self._names = []
        typed = text.upper()
        keywords = [word for word in self._keywords if text and word.startswith(typed)]
        if text.islower():
            keywords = [word.lower() for word in keywords]
        begun = len(text)
        names = {name[: name.find(".", begun) + 1] or name for name in self._names if name.startswith(text)}
        # A namespace that is typed already is no completion.
        return sorted(name for name in names if name != text or not name.endswith(".")) + keywords

    def forget(self) -> None:
        """List names again for the next word: a statement may have changed them."""
        self._names = None


class History:
    """The history of statements, in a file that only its owner can read."""

    def __init__(self, readline: ModuleType, path: Path | None) -> None:
        self._readline = readline
        self._path = path

    @classmethod
    def open(cls, environment: Mapping[str, str]) -> History | None:
        """Return the history, or None if this Python has no readline. A file that is not safe to use is not used."""
        try:
            import readline
        except ImportError:
            return None
        path = find_history(environment)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.fchmod(descriptor, 0o600)
            finally:
                os.close(descriptor)
            readline.read_history_file(path)
            usable = True
        except OSError as error:
            sys.stderr.write(f"No history: {error.strerror}: {str(error.filename)!r}\n")
            usable = False
        readline.set_auto_history(False)
        readline.set_history_length(_LONGEST_HISTORY)
        return cls(readline, path if usable else None)

    def add(self, statement: str) -> None:
        """Add a statement, also to the file: other shells may write to it at the same time."""
        # A comment would hide what follows it on a line.
        lines = statement.splitlines() if "--" in statement else [" ".join(statement.split("\n"))]
        lines[-1] += ";"
        for line in lines:
            self._readline.add_history(line)
        if self._path is not None:
            try:
                self._readline.append_history_file(len(lines), self._path)
            except OSError:
                self._path = None

    def complete_with(self, completer: SqlCompleter) -> None:
        """Let Tab complete words. Dots and backticks are parts of a word."""
        self._readline.set_completer_delims(" \t\n,;()=<>+-*/%'\"")
        self._readline.set_completer(completer)
        libedit = "libedit" in (self._readline.__doc__ or "")
        self._readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")


def find_history(environment: Mapping[str, str]) -> Path:
    """Return the file of the history, in the state directory of the XDG specification."""
    base = environment.get("XDG_STATE_HOME", "")
    state = Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "state"
    return state / "pennon" / "sql_history"
