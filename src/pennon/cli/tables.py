"""The commands `schema`, `create`, `append` and `rename`."""

from collections.abc import Iterable
from pathlib import Path
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
from pennon.cli.completion import complete_address, complete_values
from pennon.cli.output import Block, Column, Note, Table
from pennon.cli.session import Session
from pennon.cli.settings import parse_pairs

if TYPE_CHECKING:
    import pyarrow as pa

    from pennon.api import LakeCatalog
    from pennon.directory.catalog import Catalog
    from pennon.identifiers import Identifier
    from pennon.modes import CreateMode

app = new_app()


@command(app, "schema", examples=["pennon schema prod.events"])
def schema(
    session: Session, table: TableArgument, *, version: Version = None, tag: Tag = None, branch: Branch = None
) -> None:
    """Show the columns of a table."""
    with session.lake() as lake:
        from pennon.cli.table_access import translate_failures

        with translate_failures("schema", table):
            opened = lake[table].at(version, tag=tag, branch=branch)
            number, fields = opened.version, list(opened.schema)

    def view() -> Iterable[Block]:
        rows = [row for field in fields for row in _field_rows(field, 0)]
        yield Table([Column("column", whole=True), Column("type", "cyan"), Column("null")], rows, empty="no columns")

    content = [_field_document(field) for field in fields]
    session.output.show({"id": list(opened.identifier), "version": number, "fields": content}, view)


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
        str,
        typer.Option(
            help="If it exists: create fails, exist_ok keeps it, overwrite writes a new version.",
            autocompletion=complete_values("create", "exist_ok", "overwrite"),
        ),
    ] = "create",
    format_: Format = None,
    delimiter: Delimiter = None,
    properties: Properties = None,
    dry_run: DryRun = False,
) -> None:
    """Create a table from Parquet, CSV, JSON or Arrow files."""
    given = parse_pairs(properties or (), "--set")
    require_delimiter(delimiter)
    with session.lake(creates=True) as lake:
        from pennon import addresses, modes
        from pennon.cli import sources
        from pennon.cli.session import find_directory
        from pennon.cli.table_access import translate_failures

        with translate_failures("create", table):
            identifier = addresses.parse_table(table)
            wanted = modes.parse_mode(mode, modes.CreateMode.CREATE)
            catalog = find_directory(lake)
            is_new = dry_run and catalog is not None and _is_new(catalog)
            # Check before reading: files may be large.
            there = _require_creatable(lake, identifier, wanted)
            version = None
            if there and wanted is modes.CreateMode.EXIST_OK:
                rows, columns = None, None
            else:
                with sources.read_table(files, format_, delimiter=delimiter) as data:
                    rows, columns = data.num_rows, data.num_columns
                    if not dry_run:
                        version = lake.create_table(identifier, data, mode=mode, properties=given or None).version
    address = addresses.format_address(identifier)

    def view() -> Iterable[Block]:
        if rows is None:
            yield Note(f"table {address} already exists")
        elif dry_run:
            where = " in a new catalog" if is_new else ""
            done = "overwritten" if there else "created"
            yield Note(f"table {address} would be {done}{where}: {rows:,} rows, {columns} columns")
        else:
            yield Note(f"table {address}: {rows:,} rows, {columns} columns, version {version}")

    document = {"id": list(identifier), "created": rows is not None, "version": version, "rows": rows}
    if dry_run:
        document["new_catalog"] = is_new
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
    with session.lake() as lake:
        from pennon import addresses, modes
        from pennon.cli.session import find_directory
        from pennon.cli.table_access import translate_failures

        with translate_failures("rename", table):
            old, target = addresses.parse_table(table), addresses.parse_table(new)
            catalog = find_directory(lake)
            if catalog is not None:
                catalog.require_manifest("rename")
            lake.table(old)
            if old != target:
                _require_creatable(lake, target, modes.CreateMode.CREATE)
            if not dry_run:
                lake.rename(old, target)
    word = "would be renamed" if dry_run else "renamed"
    text = f"table {addresses.format_address(old)} {word} to {addresses.format_address(target)}"
    session.output.show({"id": list(old), "new_id": list(target), "dry_run": dry_run}, lambda: [Note(text)])


def _require_creatable(lake: "LakeCatalog", identifier: "Identifier", mode: "CreateMode") -> bool:
    """Return True if the table exists. Raises the errors that creating it would, as far as it can check."""
    import lance_namespace as sdk

    from pennon import addresses
    from pennon.errors import NamespaceNotFoundError, TableAlreadyExistsError
    from pennon.modes import CreateMode

    shown = addresses.format_address(identifier)
    parent = identifier[:-1]
    if not lake.has_namespace(parent):
        above = addresses.format_address(parent)
        raise NamespaceNotFoundError(
            f"Namespace not found: '{above}'{lake.suggest_similar(parent)}; create it with: "
            f"pennon create-namespace {above}"
        )
    if identifier in lake:
        described = lake.namespace.describe_table(sdk.DescribeTableRequest(id=list(identifier), check_declared=True))
        if not described.is_only_declared and mode is CreateMode.CREATE:
            raise TableAlreadyExistsError(f"Table already exists: '{shown}'")
        return not described.is_only_declared
    if lake.has_namespace(identifier):
        raise TableAlreadyExistsError(f"A namespace with that name already exists: '{shown}'")
    return False


def _is_new(catalog: "Catalog") -> bool:
    """Return True if there is nothing at the root yet."""
    store = catalog.store
    if store.is_local and not Path(store.identity()).is_dir():
        return True
    level = store.list_level()
    return not level.directories and not level.files


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
