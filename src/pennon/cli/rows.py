"""The commands `head` and `count`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from pennon.cli.arguments import Branch, TableArgument, Tag, Version, Where
from pennon.cli.commands import command, new_app
from pennon.cli.output import Block, Column, Note, Table
from pennon.cli.session import Session
from pennon.cli.values import format_cell, to_json_value

if TYPE_CHECKING:
    import pyarrow as pa

app = new_app()


@command(app, "head")
def head(
    session: Session,
    table: TableArgument,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="How many rows to show.")] = 10,
    columns: Annotated[
        str | None, typer.Option("--columns", "-c", metavar="A,B", help="Only these columns, in this order.")
    ] = None,
    where: Where = None,
    version: Version = None,
    tag: Tag = None,
    branch: Branch = None,
) -> None:
    """Show the first rows of a table."""
    wanted = None if columns is None else [name.strip() for name in columns.split(",")]
    with session.catalog_or_server() as opened:
        from pennon import addresses
        from pennon.cli.table_access import open_table, translate_failures, translate_scan_errors
        from pennon.directory.catalog import Catalog
        from pennon.table.requirements import require_bounded

        with translate_failures("head", table):
            identifier = addresses.parse_table(table)
            if isinstance(opened, Catalog):
                dataset = open_table(opened, table, version=version, tag=tag, branch=branch)
                _require_columns(wanted, dataset.schema)
                require_bounded(identifier, where)
                with translate_scan_errors(where):
                    rows = dataset.scanner(columns=wanted, filter=where, limit=limit).to_table()
                opened_version: int | None = int(dataset.version)
            else:
                from pennon.cli import remote

                rows, opened_version = remote.read_rows(
                    opened, identifier, columns=wanted, where=where, limit=limit, selected=(version, tag, branch)
                )
    names = rows.column_names
    values = [[column[index].as_py() for column in rows.columns] for index in range(rows.num_rows)]

    def view() -> Iterable[Block]:
        headings = [Column(name, right=_is_number(rows.schema.field(name).type)) for name in names]
        yield Table(headings, [[format_cell(value) for value in row] for row in values], empty="no rows")
        if len(values) == limit and limit:
            yield Note("there may be more rows: use --limit")

    session.output.show(
        {
            "id": list(identifier),
            "version": opened_version,
            "columns": names,
            "rows": ({name: to_json_value(value) for name, value in zip(names, row, strict=True)} for row in values),
        },
        view,
    )


@command(app, "count")
def count(
    session: Session,
    table: TableArgument,
    *,
    where: Where = None,
    version: Version = None,
    tag: Tag = None,
    branch: Branch = None,
) -> None:
    """Count the rows of a table."""
    with session.catalog_or_server() as opened:
        from pennon import addresses
        from pennon.cli.table_access import open_table, translate_failures, translate_scan_errors
        from pennon.directory.catalog import Catalog
        from pennon.table.requirements import require_bounded

        with translate_failures("count", table):
            identifier = addresses.parse_table(table)
            if isinstance(opened, Catalog):
                dataset = open_table(opened, table, version=version, tag=tag, branch=branch)
                require_bounded(identifier, where)
                with translate_scan_errors(where):
                    rows = int(dataset.count_rows(filter=where))
                opened_version: int | None = int(dataset.version)
            else:
                from pennon.cli import remote

                rows, opened_version = remote.count_rows(
                    opened, identifier, where=where, selected=(version, tag, branch)
                )
        document = {"id": list(identifier), "version": opened_version, "rows": rows}
    session.output.show(document, lambda: [Note(f"{rows:,}")])


def _require_columns(wanted: list[str] | None, schema: "pa.Schema") -> None:
    from pennon.errors import InvalidInputError

    for name in wanted or ():
        if name.partition(".")[0] not in schema.names:
            raise InvalidInputError(f"The table has no column {name!r}; its columns are: {', '.join(schema.names)}")


def _is_number(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
