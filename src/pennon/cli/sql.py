"""The command `sql`: statements over the catalog, as an argument, from a file, or typed (docs/guides/spark-sql.md)."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pennon.cli.arguments import STDIN
from pennon.cli.commands import command, new_app
from pennon.cli.failures import CommandFailure, ExitCode
from pennon.cli.session import Session
from pennon.cli.settings import parse_pairs
from pennon.cli.spark_start import start_spark
from pennon.cli.status_line import show_status

if TYPE_CHECKING:
    from pennon.spark import Lake

app = new_app()


@command(
    app,
    "sql",
    examples=[
        "pennon sql",
        'pennon sql "SELECT day, count(*) AS clicks FROM web.clicks GROUP BY day"',
        "pennon sql -f report.sql > report.jsonl",
        'echo "SHOW TABLES IN web" | pennon sql --table',
    ],
    spark=True,
)
def sql(
    session: Session,
    statements: Annotated[
        str | None, typer.Argument(metavar="[SQL]", help="Statements, separated by semicolons; - reads stdin.")
    ] = None,
    *,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="A file of statements; - means stdin.", allow_dash=True),
    ] = None,
    limit: Annotated[
        int,
        typer.Option("--limit", "-n", min=1, help="The most rows to show of a result in a table. JSON has all rows."),
    ] = 100,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Spark's master. The default is all cores of this machine."),
    ] = None,
    remote: Annotated[str | None, typer.Option("--remote", metavar="URL", help="A Spark Connect server.")] = None,
    spark_conf: Annotated[
        list[str] | None, typer.Option("--spark-conf", metavar="KEY=VALUE", help="A Spark setting; may be repeated.")
    ] = None,
) -> int:
    """Run SQL over the tables of the catalog, on Spark. Without statements, a shell reads them from the terminal.

    In a pipe, each row is a JSON object on a line of its own. The first statement that fails ends the command.
    """
    text = _read_statements(statements, file)
    if text is None and session.output.is_json:
        raise CommandFailure("The shell shows tables on a terminal. For JSON, pass SQL, -f FILE or statements on stdin")
    work = None if text is None else _split(text)
    with _open_lake(
        session, master=master, remote=remote, settings=parse_pairs(spark_conf or (), "--spark-conf")
    ) as lake:
        from pennon.cli.sql_results import ResultWriter
        from pennon.cli.sql_runner import StatementRunner

        with closing(StatementRunner(lake, ResultWriter(session.output, limit))) as runner:
            if work is None:
                from pennon.cli.sql_shell import SqlShell

                SqlShell(runner, session).run()
            else:
                for statement in work:
                    runner.run(statement)
    return ExitCode.DONE


def _read_statements(statements: str | None, file: Path | None) -> str | None:
    """Return the text of the statements, or None if a shell should ask for them."""
    if statements is not None and file is not None:
        raise CommandFailure("Use either SQL or --file, not both")
    if statements is not None and statements != STDIN:
        return statements
    if file is not None and str(file) != STDIN:
        try:
            return file.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise CommandFailure(f"There is no file {str(file)!r}", ExitCode.NOT_FOUND) from error
        except (IsADirectoryError, UnicodeDecodeError) as error:
            raise CommandFailure(f"{str(file)!r} is not a file of statements in UTF-8") from error
    if statements == STDIN or file is not None or not sys.stdin.isatty():
        return sys.stdin.read()
    return None


def _split(text: str) -> Sequence[str]:
    """Return the statements of a text. Raises CommandFailure if there are none."""
    from pennon.spark.statements.splitting import split_statements

    complete, rest = split_statements(text)
    found = [*complete, rest] if rest else complete
    if not found:
        raise CommandFailure("There is no statement to run")
    return found


@contextmanager
def _open_lake(
    session: Session, *, master: str | None, remote: str | None, settings: dict[str, str]
) -> "Iterator[Lake]":
    """Attach the catalog to Spark. A catalog that cannot be reached is reported before Java starts."""
    if master is not None and remote is not None:
        raise CommandFailure("--master and --remote exclude each other")
    with show_status("Opening the catalog") as status:
        connection = session.connection()
        with session.lake() as opened:
            from lance_namespace import ListNamespacesRequest

            opened.namespace.list_namespaces(ListNamespacesRequest(id=[], limit=1))
        with start_spark(
            "pennon sql", status, master=master, remote=remote, settings=settings, verbose=session.debug
        ) as spark:
            from pennon.spark import attach

            lake = attach(spark, impl=connection.impl, **connection.properties)
            status.clear()
            yield lake
