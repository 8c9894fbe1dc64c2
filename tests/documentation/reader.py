"""A reader who follows a page: types its commands into a shell, and its Python into an interactive session."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cli.cli_support import Terminal, open_terminal
from tests.documentation.screens import matches, render_screen, require_match

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from tests.documentation.code_blocks import CodeBlock

SHELL = {"sh", "bash", "console"}
_SERVER = "pennon serve"
_COLUMNS = 100
_SECONDS = 240
# Variables of this machine that programs need, and that a reader has set.
_KEPT = {"JAVA_HOME", "LANG", "LC_ALL", "SPARK_CONF_DIR", "SPARK_LOCAL_IP", "TMPDIR"}
# A block goes on with the variables and the directory that the last one left.
_SCRIPT = """
if [ -e {state} ]; then . {state}; cd "$PWD"; fi
trap 'export -p >{next}' EXIT
trap '[ "$BASH_SOURCE" != {block} ] || echo "$LINENO $?" >>{failures}' ERR
. {block}
exit 0
"""


class Reader:
    """Follows pages in a home directory of its own. Everything that it starts ends with the `with` statement."""

    def __init__(self, home: Path, *, folder: Path | None = None, **variables: str) -> None:
        """Take an empty home directory, and the directory in it where the reader begins."""
        self.home = home
        self.folder = folder or home
        programs = Path(sys.executable).parent
        kept = {name: value for name, value in os.environ.items() if name in _KEPT}
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        self._environment = {"LANG": "C.UTF-8", **kept, "PATH": path, "HOME": str(home), **variables}
        self._notes = home / ".reader"
        self._state = self._notes / "variables"
        self._opened = ExitStack()
        self._servers: list[tuple[CodeBlock, Terminal]] = []
        self._python: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._notes.mkdir()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._opened:
            self._end_python()

    def write_file(self, block: CodeBlock) -> None:
        """Save a block under its title."""
        assert block.title
        path = self._current_folder() / block.title
        assert path.resolve().is_relative_to(self.home.resolve()), f"{block}: {block.title} is outside of the home"
        path.write_text(block.code, encoding="utf-8")

    def run_commands(self, block: CodeBlock) -> None:
        """Type the commands of a block.

        Raises AssertionError if the screen does not show what the page shows, or if a command fails. A command may
        fail if the line after it shows `$?`.
        """
        if block.code.startswith(_SERVER):
            self._start_server(block)
            return
        failures = self._notes / "failures"
        failures.unlink(missing_ok=True)
        with open_terminal(
            self._script(block, failures, self._state), self._environment, _COLUMNS, self.folder
        ) as terminal:
            terminal.patience = _SECONDS
            code = terminal.end()
        shown = render_screen(terminal.seen)
        assert code == 0, f"{block} ended with {code}:\n{shown}"
        lines = block.code.split("\n")
        for failure in failures.read_text().splitlines() if failures.exists() else ():
            number, status = map(int, failure.split())
            assert "$?" in lines[number], f"{block}: {lines[number - 1]!r} ended with {status}:\n{shown}"
        if block.output is not None:
            require_match(block.output, shown, block)

    def run_python(self, block: CodeBlock) -> None:
        """Type a block into the interactive session, which all blocks of a page share."""
        session = self._python_session()
        assert session.stdin
        assert session.stdout
        session.stdin.write(json.dumps({"code": block.code, "where": str(block)}) + "\n")
        session.stdin.flush()
        answer = session.stdout.readline()
        assert answer, f"{block} ended Python"
        found = json.loads(answer)
        assert found["failure"] is None, f"{block}:\n{found['failure']}"
        if block.output is not None:
            require_match(block.output, found["shown"], block)

    def stop_servers(self) -> None:
        """Press Ctrl-C in the terminals of servers. Raises AssertionError if one does not end with 0."""
        for block, terminal in self._servers:
            terminal.type("\x03")
            assert terminal.end() == 0, f"{block}:\n{render_screen(terminal.seen)}"
        self._servers.clear()

    def _script(self, block: CodeBlock, failures: Path, following: Path) -> list[str]:
        file = self._notes / f"{failures.name}.sh"
        file.write_text(block.code, encoding="utf-8")
        places = {"state": self._state, "block": file, "failures": failures, "next": following}
        script = _SCRIPT.format(**{name: shlex.quote(str(path)) for name, path in places.items()})
        return ["bash", "--noprofile", "--norc", "-c", script]

    def _start_server(self, block: CodeBlock) -> None:
        """Start a server in a terminal of its own, and wait for what the page shows."""
        assert block.output, f"{block}: a server needs the output that shows that it has started"
        command = self._script(block, self._notes / "server", Path(os.devnull))
        terminal = self._opened.enter_context(open_terminal(command, self._environment, _COLUMNS, self.folder))
        self._servers.append((block, terminal))
        while not matches(block.output, render_screen(terminal.seen)):
            assert terminal.read_more(), f"{block} ended:\n{render_screen(terminal.seen)}"

    def _current_folder(self) -> Path:
        return Path(self._variables().get("PWD", self.folder))

    def _variables(self) -> dict[str, str]:
        """Return the variables of the shell as they are now."""
        if not self._state.exists():
            return {**self._environment, "PWD": str(self.folder)}
        command = ["bash", "--noprofile", "--norc", "-c", f". {shlex.quote(str(self._state))}; env -0"]
        found = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=True).stdout
        return dict(one.split("=", 1) for one in found.split("\0") if one)

    def _python_session(self) -> subprocess.Popen[str]:
        if self._python is None:
            variables = self._variables()
            program = str(Path(__file__).with_name("python_blocks.py"))
            self._python = subprocess.Popen(
                ["/usr/bin/env", "python", program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=variables,
                cwd=variables["PWD"],
            )
        return self._python

    def _end_python(self) -> None:
        if self._python is not None:
            self._python.communicate(timeout=_SECONDS)
            self._python = None
