"""The command `pennon`: its sub-commands by name, each loaded when it is called."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from pennon.cli.commands import CONTEXT, sharing_options
from pennon.cli.failures import CommandFailure, ExitCode, PipeClosed, report
from pennon.cli.session import Session


@dataclass(frozen=True)
class Entry:
    """A sub-command: the module whose `app` has it, one line of help, and the extra without which it cannot be."""

    name: str
    module: str
    help: str
    extra: str | None = None
    has_commands: bool = False
    """The module's app is the sub-command, and has commands of its own."""


COMMANDS = (
    Entry("ls", "pennon.cli.catalog", "List namespaces and tables."),
    Entry("tree", "pennon.cli.catalog", "Show namespaces and tables as a tree."),
    Entry("info", "pennon.cli.catalog", "Describe a table, a namespace or the catalog."),
    Entry("schema", "pennon.cli.tables", "Show the columns of a table."),
    Entry("head", "pennon.cli.rows", "Show the first rows of a table."),
    Entry("count", "pennon.cli.rows", "Count the rows of a table."),
    Entry("versions", "pennon.cli.versions", "List the versions of a table, the newest first."),
    Entry("create-namespace", "pennon.cli.namespaces", "Create a namespace."),
    Entry("create", "pennon.cli.tables", "Create a table from Parquet, CSV, JSON or Arrow files."),
    Entry("rename", "pennon.cli.tables", "Rename a table, also into another namespace."),
    Entry("drop", "pennon.cli.trash", "Drop tables or namespaces; they can be brought back."),
    Entry("undrop", "pennon.cli.trash", "Bring back what was dropped."),
    Entry("trash", "pennon.cli.trash", "List what is dropped."),
    Entry("purge", "pennon.cli.trash", "Delete dropped tables for good."),
    Entry("migrate", "pennon.cli.catalog", "Bring root tables into the manifest (V1 to V2)."),
    Entry("manage-versions", "pennon.cli.versions", "Let the catalog manage the versions of its tables."),
    Entry("serve", "pennon.cli.serve", "Serve the catalog as an Iceberg REST catalog.", extra="server"),
    Entry("run", "pennon.cli.run", "Run a pipeline.", extra="spark"),
    Entry("jobs", "pennon.cli.jobs", "Run maintenance jobs on Spark.", extra="spark", has_commands=True),
)


class LazyGroup(TyperGroup):
    """A group whose help needs only the list above; a module is imported when one of its commands is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for entry in COMMANDS:
            self.commands[entry.name] = TyperCommand(entry.name, help=entry.help)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command that the arguments name, and load it."""
        name, command, rest = super().resolve_command(ctx, args)
        entry = next((one for one in COMMANDS if one.name == name), None)
        return name, command if entry is None else loaded(entry), rest


def loaded(entry: Entry) -> Any:
    """Import the module of a command and build the command; a module that cannot be had is a CommandFailure."""
    try:
        module = import_module(entry.module)
    except ModuleNotFoundError as error:
        if entry.extra is None:
            raise
        if error.name == entry.module:
            raise CommandFailure(f"'{entry.name}' is not part of this version", ExitCode.UNSUPPORTED) from error
        raise CommandFailure(
            f"'{entry.name}' needs {error.name}, which is not installed: pip install 'pennon[{entry.extra}]'",
            ExitCode.UNSUPPORTED,
        ) from error
    module.app.rich_markup_mode = None
    group = get_group(module.app)
    return group if entry.has_commands else group.commands[entry.name]


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - as typer calls it
    if wanted:
        from pennon import __version__

        typer.echo(f"pennon {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=LazyGroup,
    # Help without rich: importing it would take longer than everything else together.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=CONTEXT,
)


@app.callback()
@sharing_options
def pennon(
    session: Session,
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """A catalog for Lance tables that needs no server.

    A table is written prod.events, or /prod/events if a name holds dots. Commands take the options below, too.
    """
    del session, version


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give its exit code; whatever goes wrong is one line on stderr."""
    session = Session(debug=os.environ.get("PENNON_DEBUG", "") not in {"", "0"})
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A name that the terminal's encoding lacks is written as an escape.
            stream.reconfigure(errors="backslashreplace")
    try:
        return _run(given, session)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else ExitCode.INTERNAL
    except BrokenPipeError:
        code = report(PipeClosed(), secrets=(), debug=False)
    except BaseException as error:  # noqa: BLE001 - nothing leaves this process but an exit code
        code = report(error, secrets=session.hidden, debug=session.debug)
    _abandon_output()
    return code


def _run(arguments: list[str], session: Session) -> int:
    outcome = get_command(app).main(arguments, prog_name="pennon", standalone_mode=False, obj=session)
    sys.stdout.flush()
    if outcome == ExitCode.INTERRUPTED:
        # Some versions of typer turn Ctrl-C into this outcome.
        raise KeyboardInterrupt
    return outcome if isinstance(outcome, int) else ExitCode.DONE


def _abandon_output() -> None:
    """Let nothing be written any more: a pipe that is closed would raise once more when the process ends."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        return
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
