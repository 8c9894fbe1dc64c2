"""The command `pennon` and the list of its sub-commands, which are imported when they are called."""

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

from pennon.cli.commands import CONTEXT, add_shared_options, format_examples
from pennon.cli.failures import CommandFailure, ExitCode, PipeClosed, report_failure
from pennon.cli.session import Session


@dataclass(frozen=True)
class SubCommand:
    """A sub-command: the module that defines it, one line of help, and the extra that it needs."""

    name: str
    module: str
    help: str
    extra: str | None = None
    has_commands: bool = False
    """True if the module's app has several commands, as `pennon jobs` does."""


COMMANDS = (
    SubCommand("ls", "pennon.cli.catalog", "List namespaces and tables."),
    SubCommand("tree", "pennon.cli.catalog", "Show namespaces and tables as a tree."),
    SubCommand("info", "pennon.cli.catalog", "Describe a table, a namespace or the catalog."),
    SubCommand("schema", "pennon.cli.tables", "Show the columns of a table."),
    SubCommand("head", "pennon.cli.rows", "Show the first rows of a table."),
    SubCommand("count", "pennon.cli.rows", "Count the rows of a table."),
    SubCommand("search", "pennon.cli.rows", "Search a table by vectors, by texts or by both."),
    SubCommand("export", "pennon.cli.export", "Write the rows of a table to a Parquet, CSV, JSON or Arrow file."),
    SubCommand("versions", "pennon.cli.versions", "List the versions of a table, the newest first."),
    SubCommand("create-namespace", "pennon.cli.namespaces", "Create a namespace."),
    SubCommand("protect", "pennon.cli.namespaces", "Protect a table or a namespace from being dropped."),
    SubCommand("create", "pennon.cli.tables", "Create a table from Parquet, CSV, JSON or Arrow files."),
    SubCommand("append", "pennon.cli.tables", "Append rows from files to a table."),
    SubCommand("rename", "pennon.cli.tables", "Rename a table, also into another namespace."),
    SubCommand("properties", "pennon.cli.properties", "Show, set or remove properties of a table or a namespace."),
    SubCommand("tag", "pennon.cli.versions", "List, create, move or delete tags of a table."),
    SubCommand("restore", "pennon.cli.versions", "Make an old version of a table the latest one again."),
    SubCommand("drop", "pennon.cli.trash", "Drop tables or namespaces; they can be restored."),
    SubCommand("undrop", "pennon.cli.trash", "Restore a dropped table or namespace."),
    SubCommand("trash", "pennon.cli.trash", "List dropped tables and namespaces."),
    SubCommand("purge", "pennon.cli.trash", "Delete dropped tables permanently."),
    SubCommand("doctor", "pennon.cli.doctor", "Examine a catalog and its store, say what to do, and repair it."),
    SubCommand("migrate", "pennon.cli.catalog", "Add root tables to the manifest (V1 to V2)."),
    SubCommand("manage-versions", "pennon.cli.versions", "Let the catalog manage the versions of its tables."),
    SubCommand("serve", "pennon.cli.serve", "Serve the catalog to Lance and Iceberg clients.", extra="server"),
    SubCommand(
        "access",
        "pennon.cli.access_policy",
        "Make API keys; check and explain policies.",
        extra="server",
        has_commands=True,
    ),
    SubCommand("run", "pennon.cli.run", "Run a pipeline.", extra="spark"),
    SubCommand("test", "pennon.cli.run", "Run the checks of a pipeline over its published tables.", extra="spark"),
    SubCommand("sql", "pennon.cli.sql", "Run SQL statements, or a shell for them.", extra="spark"),
    SubCommand("jobs", "pennon.cli.jobs", "Run maintenance jobs on Spark.", extra="spark", has_commands=True),
)


class LazyGroup(TyperGroup):
    """A group whose help uses only `COMMANDS`. A module is imported when one of its commands is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for entry in COMMANDS:
            self.commands[entry.name] = TyperCommand(entry.name, help=entry.help)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that the arguments name, loaded."""
        name, command, rest = super().resolve_command(ctx, args)
        entry = next((one for one in COMMANDS if one.name == name), None)
        return name, command if entry is None else load_command(entry), rest


def load_command(entry: SubCommand) -> Any:
    """Return a sub-command. Raises CommandFailure if its module or an extra is not installed."""
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


def _show_version(requested: bool) -> None:  # noqa: FBT001 - typer passes it by position
    if requested:
        from pennon import __version__

        typer.echo(f"pennon {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=LazyGroup,
    # Help without rich: importing rich takes longer than everything else together.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=CONTEXT,
)


@app.callback(
    epilog=format_examples(
        [
            "pennon --root /data/catalog ls",
            "pennon create web.clicks clicks.parquet",
            "pennon drop web.clicks",
            "pennon undrop web.clicks",
        ]
    )
)
@add_shared_options
def pennon(
    session: Session,
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """A catalog for Lance tables that needs no server.

    Write a table as prod.events, or as /prod/events if a name contains dots. All commands accept the options below.
    """
    del session, version


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. An error is reported as one line on stderr."""
    session = Session(debug=os.environ.get("PENNON_DEBUG", "") not in {"", "0"})
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Characters that the terminal's encoding lacks are escaped.
            stream.reconfigure(errors="backslashreplace")
    try:
        return _run(given, session)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else ExitCode.INTERNAL
    except BrokenPipeError:
        code = report_failure(PipeClosed(), secrets=(), debug=False)
    except BaseException as error:  # noqa: BLE001 - every error becomes an exit code
        code = report_failure(error, secrets=session.hidden, debug=session.debug)
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
    """Discard further output: a closed pipe would raise again when the process ends."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        return
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
