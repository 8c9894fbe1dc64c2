"""Open a lake for a job's command, and show the job's result as a table or as JSON."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pennon.cli.failures import CommandFailure, ExitCode, exit_code_for
from pennon.cli.output import Column, Note, Table
from pennon.cli.spark_start import start_spark
from pennon.cli.status_line import show_status
from pennon.cli.values import format_cell, format_size, to_json_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pennon.cli.output import Block
    from pennon.cli.session import Session
    from pennon.spark import Lake
    from pennon.spark.address import Address
    from pennon.spark.jobs import JobResults, TableOutcome
    from pennon.spark.jobs.table_selection import TableSelector


@contextmanager
def open_lake(
    session: Session,
    job: str,
    tables: str | None,
    check: Callable[[Address, TableSelector], None] | None = None,
    *,
    master: str | None,
    remote: str | None,
) -> Iterator[tuple[Lake, TableSelector]]:
    """Attach the catalog to Spark: to the session of spark-submit, to `master` or `remote`, or on this machine.

    Yields the lake and the selected tables. What needs no Spark is reported before Java starts: a missing directory, a
    bad pattern, a missing table, and what `check` raises.
    """
    if master is not None and remote is not None:
        raise CommandFailure("--master and --remote exclude each other")
    with show_status("Opening the catalog") as status:
        connection = session.connection()
        with session.lake():
            pass
        from pennon.spark import attach
        from pennon.spark.address import Address
        from pennon.spark.jobs.table_selection import require_existing

        which = parse_tables(tables)
        address = Address.of(connection.impl, connection.properties)
        require_existing(address.connect(), which)
        if check is not None:
            check(address, which)
        with start_spark(f"pennon jobs {job}", status, master=master, remote=remote, verbose=session.debug) as spark:
            lake = attach(spark, impl=connection.impl, **connection.properties)
            status.clear()
            yield lake, which


def parse_tables(text: str | None) -> TableSelector:
    """Return the selected tables: an address or a pattern, or None for all tables."""
    from pennon import addresses
    from pennon.table_patterns import TablePattern, is_pattern

    if text is None or text == addresses.ROOT:
        return None
    if addresses.SLASH not in text:
        return text
    names = list(text.strip(addresses.SLASH).split(addresses.SLASH))
    return TablePattern.from_names(names) if any(is_pattern(name) for name in names) else names


def show_result(
    session: Session, job: str, results: JobResults, columns: Sequence[str], *, dry_run: bool = False
) -> ExitCode:
    """Show the result of a job, and return the exit code, which is that of the first table that failed."""
    counts = Counter(one.status for one in results)

    def view() -> Iterable[Block]:
        headings = [Column("table", whole=True), Column("status"), *(_heading(name) for name in columns)]
        headings.append(Column("message"))
        yield Table(headings, [_row_cells(one, columns) for one in results], empty="no tables match")
        if results:
            yield Note(", ".join(f"{count} {status}" for status, count in sorted(counts.items())))

    document = {
        "job": job,
        "dry_run": dry_run,
        "failed": counts["failed"],
        "tables": [_row_document(one) for one in results],
    }
    session.output.show(document, view)
    failed = next((one for one in results if one.status == "failed"), None)
    return ExitCode.DONE if failed is None else exit_code_for(failed["code"])


def _row_document(outcome: TableOutcome) -> dict[str, Any]:
    identifier = _parse_identifier(outcome.table)
    rest = {name: to_json_value(value) for name, value in outcome.to_dict().items() if name != "table"}
    return {"id": None if identifier is None else list(identifier), **rest}


def _row_cells(outcome: TableOutcome, columns: Sequence[str]) -> list[str]:
    from pennon import addresses

    identifier = _parse_identifier(outcome.table)
    name = f"({outcome.details.get('location')})" if identifier is None else addresses.format_address(identifier)
    values = [_format_value(column, outcome[column]) for column in columns]
    return [name, outcome.status, *values, format_cell(outcome.message)]


def _format_value(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name.endswith("bytes") or name.startswith("bytes"):
        return format_size(value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else format_cell(value)


def _heading(name: str) -> Column:
    return Column(name.replace("_", " "), right=True)


def _parse_identifier(table: str | None) -> tuple[str, ...] | None:
    from pennon.identifiers import parse_identifier

    return None if table is None else parse_identifier(table)
