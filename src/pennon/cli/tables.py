"""The commands `schema`, `create`, `append` and `rename`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pennon.cli.arguments import (
    Branch,
    Delimiter,
    DryRun,
    Files,
    Format,
    Properties,
    TableArgument,
    Tag,
    Version,
    require_delimiter,
)
from pennon.cli.commands import command, new_app
from pennon.cli.completion import complete_address
from pennon.cli.output import Block, Column, Note, Table
from pennon.cli.session import Session
from pennon.cli.settings import parse_pairs

if TYPE_CHECKING:
    import pyarrow as pa

app = new_app()


@command(app, "schema", examples=["pennon schema prod.events"])
def schema(
    session: Session, table: TableArgument, *, version: Version = None, tag: Tag = None, branch: Branch = None
) -> None:
    """Show the columns of a table."""
    with session.catalog() as catalog:
        from pennon import addresses
        from pennon.cli.table_access import open_table, translate_failures

        with translate_failures("schema", table):
            dataset = open_table(catalog, table, version=version, tag=tag, branch=branch)
            fields, opened_version = list(dataset.schema), int(dataset.version)
        identifier = addresses.parse_table(table)

    def view() -> Iterable[Block]:
        rows = [row for field in fields for row in _field_rows(field, 0)]
        yield Table([Column("column", whole=True), Column("type", "cyan"), Column("null")], rows, empty="no columns")

    content = [_field_document(field) for field in fields]
    session.output.show({"id": list(identifier), "version": opened_version, "fields": content}, view)


@command(
    app,
    "create",
    examples=["pennon create prod.events events.parquet", "zcat day.csv.gz | pennon create prod.events - --format csv"],
)
def create(
    session: Session,
    table: TableArgument,
    files: Files,
    *,
    mode: Annotated[
        str, typer.Option(help="If it exists: create fails, exist_ok keeps it, overwrite writes a new version.")
    ] = "create",
    format_: Format = None,
    delimiter: Delimiter = None,
    properties: Properties = None,
    dry_run: DryRun = False,
) -> None:
    """Create a table from Parquet, CSV, JSON or Arrow files."""
    given = parse_pairs(properties or (), "--set")
    require_delimiter(delimiter)
    with session.catalog(creates=True) as catalog:
        from pennon import addresses, modes
        from pennon.cli import sources
        from pennon.cli.table_access import translate_failures
        from pennon.directory.lifecycle import create

        with translate_failures("create", table):
            identifier = addresses.parse_table(table)
            wanted = modes.parse_mode(mode, modes.CreateMode.CREATE)
            # Check before reading: files may be large.
            there = _require_creatable(catalog, identifier, wanted)
            version = None
            if there and wanted is modes.CreateMode.EXIST_OK:
                rows, columns = None, None
            else:
                with sources.read_table(files, format_, delimiter=delimiter) as data:
                    rows, columns = data.num_rows, data.num_columns
                    if not dry_run:
                        made = create.create(catalog, identifier, data, wanted, properties=given or None)
                        version = made.version
    address = addresses.format_address(identifier)

    def view() -> Iterable[Block]:
        if rows is None:
            yield Note(f"table {address} already exists")
        elif dry_run:
            yield Note(
                f"table {address} would be {'overwritten' if there else 'created'}: {rows:,} rows, {columns} columns"
            )
        else:
            yield Note(f"table {address}: {rows:,} rows, {columns} columns, version {version}")

    document = {"id": list(identifier), "created": rows is not None, "version": version, "rows": rows}
    session.output.show({**document, "columns": columns, "dry_run": dry_run}, view)


@command(
    app,
    "append",
    examples=["pennon append prod.events more.parquet", "cat more.jsonl | pennon append prod.events - --format json"],
)
def append(
    session: Session,
    table: TableArgument,
    files: Files,
    *,
    format_: Format = None,
    delimiter: Delimiter = None,
    branch: Branch = None,
    dry_run: DryRun = False,
) -> None:
    """Append rows from files to a table, in one commit.

    Columns are matched by name. Values get the types of the table's columns; those that do not fit are an error.
    """
    require_delimiter(delimiter)
    with session.lake() as lake:
        from pennon import addresses
        from pennon.cli import sources
        from pennon.cli.table_access import translate_failures
        from pennon.errors import InvalidTableStateError

        with translate_failures("append", table):
            opened = lake[table].at(branch=branch)
            try:
                expected = opened.schema
            except InvalidTableStateError:
                expected = None  # The first rows of a declared table decide about its columns.
            with sources.read_table(files, format_, delimiter=delimiter, expected=expected) as data:
                rows = data.num_rows
                if not dry_run:
                    opened.append(data)
            version = None if dry_run else opened.version
    shown = addresses.format_address(opened.identifier)
    text = f"{rows:,} rows would be appended to" if dry_run else f"{rows:,} rows appended to"
    document = {"id": list(opened.identifier), "rows": rows, "version": version, "dry_run": dry_run}
    more = "" if version is None else f", version {version}"
    session.output.show(document, lambda: [Note(f"{text} table {shown}{more}")])


@command(app, "rename", examples=["pennon rename prod.events prod.clicks"])
def rename(
    session: Session,
    table: TableArgument,
    new: Annotated[
        str,
        typer.Argument(
            metavar="NEW", help="The full new address, including the namespace.", autocompletion=complete_address
        ),
    ],
    *,
    dry_run: DryRun = False,
) -> None:
    """Rename a table, also into another namespace. No data is moved."""
    with session.catalog() as catalog:
        from pennon import addresses, modes
        from pennon.cli.table_access import translate_failures
        from pennon.directory.lifecycle import register

        with translate_failures("rename", table):
            old, target = addresses.parse_table(table), addresses.parse_table(new)
            catalog.require_manifest("rename")
            if dry_run:
                catalog.resolver.table(old)
                if old != target:
                    _require_creatable(catalog, target, modes.CreateMode.CREATE)
            else:
                register.rename(catalog, old, target)
    word = "would be renamed" if dry_run else "renamed"
    text = f"table {addresses.format_address(old)} {word} to {addresses.format_address(target)}"
    session.output.show({"id": list(old), "new_id": list(target), "dry_run": dry_run}, lambda: [Note(text)])


def _require_creatable(catalog: Any, identifier: Any, mode: Any) -> bool:
    """Return True if the table exists. Raises the errors that creating it would, as far as it can check."""
    from pennon import addresses
    from pennon.cli.table_access import namespace_exists
    from pennon.errors import TableAlreadyExistsError, TableNotFoundError
    from pennon.modes import CreateMode

    shown = addresses.format_address(identifier)
    catalog.resolver.require_namespace(identifier[:-1])
    try:
        found = catalog.resolver.table(identifier, look=True)
    except TableNotFoundError:
        if not namespace_exists(catalog, identifier):
            return False
        raise TableAlreadyExistsError(f"A namespace with that name already exists: '{shown}'") from None
    if found.directory is not None and found.directory.is_only_declared:
        return False
    if mode is CreateMode.CREATE:
        raise TableAlreadyExistsError(f"Table already exists: '{shown}'")
    return True


def _field_document(field: "pa.Field") -> dict[str, Any]:
    content: dict[str, Any] = {"name": field.name, "type": str(field.type), "nullable": field.nullable}
    if field.metadata:
        content["metadata"] = {
            key.decode(errors="replace"): value.decode(errors="replace") for key, value in field.metadata.items()
        }
    inner = _inner_fields(field)
    return {**content, "fields": [_field_document(one) for one in inner]} if inner else content


def _field_rows(field: "pa.Field", depth: int) -> Iterable[list[str]]:
    inner = _inner_fields(field)
    # Inner fields are on separate lines.
    kind = str(field.type).partition("<")[0] if inner else str(field.type)
    yield [f"{'  ' * depth}{field.name}", kind, "" if field.nullable else "not null"]
    for one in inner:
        yield from _field_rows(one, depth + 1)


def _inner_fields(field: "pa.Field") -> list["pa.Field"]:
    import pyarrow as pa

    kind = field.type
    if pa.types.is_struct(kind):
        return [kind.field(index) for index in range(kind.num_fields)]
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and pa.types.is_nested(kind.value_type):
        return [kind.value_field]
    return []
