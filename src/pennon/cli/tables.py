"""Tables: `schema`, `create`, `rename`."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pennon.cli.arguments import Branch, DryRun, Properties, TableArgument, Tag, Version
from pennon.cli.commands import command, new_app
from pennon.cli.completion import complete_address
from pennon.cli.failures import CommandFailure
from pennon.cli.output import Block, Column, Note, Table
from pennon.cli.session import Session
from pennon.cli.settings import pairs

if TYPE_CHECKING:
    import pyarrow as pa

app = new_app()


@command(app, "schema")
def schema(
    session: Session, table: TableArgument, *, version: Version = None, tag: Tag = None, branch: Branch = None
) -> None:
    """Show the columns of a table."""
    with session.catalog() as catalog:
        from pennon.cli import addresses
        from pennon.cli.opened import asking, open_table

        with asking("schema", table):
            dataset = open_table(catalog, table, version=version, tag=tag, branch=branch)
            fields, opened_version = list(dataset.schema), int(dataset.version)
        identifier = addresses.table(table)

    def view() -> Iterable[Block]:
        rows = [row for field in fields for row in _rows(field, 0)]
        yield Table([Column("column", whole=True), Column("type", "cyan"), Column("null")], rows, empty="no columns")

    content = [_field(field) for field in fields]
    session.output.show({"id": list(identifier), "version": opened_version, "fields": content}, view)


@command(app, "create")
def create(
    session: Session,
    table: TableArgument,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Files or directories; - is stdin.", allow_dash=True)
    ],
    *,
    mode: Annotated[
        str, typer.Option(help="If it is there: create refuses, exist_ok leaves it, overwrite makes a new version.")
    ] = "create",
    format_: Annotated[
        str | None, typer.Option("--format", help="parquet, csv, json or arrow; told from the names, otherwise.")
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="What separates the values of CSV.")] = None,
    properties: Properties = None,
    dry_run: DryRun = False,
) -> None:
    """Create a table from Parquet, CSV, JSON or Arrow files."""
    given = pairs(properties or (), "--set")
    if delimiter is not None and len(delimiter) != 1:
        raise CommandFailure(f"--delimiter takes one character, got {delimiter!r}")
    with session.catalog(creates=True) as catalog:
        from pennon import modes
        from pennon.cli import addresses, sources
        from pennon.cli.opened import asking
        from pennon.directory.lifecycle import create

        with asking("create", table):
            identifier = addresses.table(table)
            wanted = modes.parse_mode(mode, modes.CreateMode.CREATE)
            # Before anything is read: files may be large, and names are often taken.
            there = _require_creatable(catalog, identifier, wanted)
            version = None
            if there and wanted is modes.CreateMode.EXIST_OK:
                rows, columns = None, None
            else:
                with sources.table_of(files, format_, delimiter=delimiter) as data:
                    rows, columns = data.num_rows, data.num_columns
                    if not dry_run:
                        made = create.create(catalog, identifier, data, wanted, properties=given or None)
                        version = made.version
    address = addresses.shown(identifier)

    def view() -> Iterable[Block]:
        if rows is None:
            yield Note(f"table {address} is there")
        elif dry_run:
            yield Note(
                f"table {address} would be {'overwritten' if there else 'created'}: {rows:,} rows, {columns} columns"
            )
        else:
            yield Note(f"table {address}: {rows:,} rows, {columns} columns, version {version}")

    document = {"id": list(identifier), "created": rows is not None, "version": version, "rows": rows}
    session.output.show({**document, "columns": columns, "dry_run": dry_run}, view)


@command(app, "rename")
def rename(
    session: Session,
    table: TableArgument,
    new: Annotated[
        str,
        typer.Argument(
            metavar="NEW", help="The whole new address, with its namespace.", autocompletion=complete_address
        ),
    ],
    *,
    dry_run: DryRun = False,
) -> None:
    """Rename a table, also into another namespace. No data is moved."""
    with session.catalog() as catalog:
        from pennon import modes
        from pennon.cli import addresses
        from pennon.cli.opened import asking
        from pennon.directory.lifecycle import register

        with asking("rename", table):
            old, target = addresses.table(table), addresses.table(new)
            catalog.require_manifest("rename")
            if dry_run:
                catalog.resolver.table(old)
                if old != target:
                    _require_creatable(catalog, target, modes.CreateMode.CREATE)
            else:
                register.rename(catalog, old, target)
    word = "would be renamed" if dry_run else "renamed"
    text = f"table {addresses.shown(old)} {word} to {addresses.shown(target)}"
    session.output.show({"id": list(old), "new_id": list(target), "dry_run": dry_run}, lambda: [Note(text)])


def _require_creatable(catalog: Any, identifier: Any, mode: Any) -> bool:
    """Raise what creating a table would raise, as far as a look tells; tells whether a table is there."""
    from pennon.cli import addresses
    from pennon.errors import NamespaceNotFoundError, TableAlreadyExistsError, TableNotFoundError
    from pennon.modes import CreateMode

    shown = addresses.shown(identifier)
    catalog.resolver.require_namespace(identifier[:-1])
    try:
        found = catalog.resolver.table(identifier, look=True)
    except TableNotFoundError:
        try:
            catalog.resolver.require_namespace(identifier)
        except NamespaceNotFoundError:
            return False
        raise TableAlreadyExistsError(f"A namespace of that name already exists: '{shown}'") from None
    if found.directory is not None and found.directory.only_declared:
        return False
    if mode is CreateMode.CREATE:
        raise TableAlreadyExistsError(f"Table already exists: '{shown}'")
    return True


def _field(field: "pa.Field") -> dict[str, Any]:
    content: dict[str, Any] = {"name": field.name, "type": str(field.type), "nullable": field.nullable}
    if field.metadata:
        content["metadata"] = {
            key.decode(errors="replace"): value.decode(errors="replace") for key, value in field.metadata.items()
        }
    inner = _inner(field)
    return {**content, "fields": [_field(one) for one in inner]} if inner else content


def _rows(field: "pa.Field", depth: int) -> Iterable[list[str]]:
    inner = _inner(field)
    # What is inside stands on lines of its own.
    kind = str(field.type).partition("<")[0] if inner else str(field.type)
    yield [f"{'  ' * depth}{field.name}", kind, "" if field.nullable else "not null"]
    for one in inner:
        yield from _rows(one, depth + 1)


def _inner(field: "pa.Field") -> list["pa.Field"]:
    import pyarrow as pa

    kind = field.type
    if pa.types.is_struct(kind):
        return [kind.field(index) for index in range(kind.num_fields)]
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and pa.types.is_nested(kind.value_type):
        return [kind.value_field]
    return []
