"""Commands on the whole catalog: `ls`, `tree`, `info` and `migrate`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pennon.cli.arguments import DryRun, Namespace, Page
from pennon.cli.commands import command, new_app
from pennon.cli.output import Block, Column, Fields, Lines, Note, Table
from pennon.cli.session import Session

if TYPE_CHECKING:
    from pennon.cli import entries
    from pennon.results import MigrationReport

app = new_app()

_SHOWN = 1000
"""How many entries a terminal shows by default."""


@command(app, "ls", examples=["pennon ls", "pennon ls prod --long"])
def ls(
    session: Session,
    namespace: Namespace = None,
    *,
    long: Annotated[
        bool, typer.Option("--long", "-l", help="Open each table, and show its version, rows and columns.")
    ] = False,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="List all tables at any depth.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            min=0, help=f"How many entries; 0 for all. The default is {_SHOWN:,} on a terminal, and all in JSON."
        ),
    ] = None,
    page: Page = None,
) -> None:
    """List namespaces and tables."""
    from pennon import addresses
    from pennon.cli.table_access import translate_failures

    most = limit or None if limit is not None or session.output.is_json else _SHOWN
    with session.lake() as lake, translate_failures("ls", namespace):
        from pennon.cli import entries

        where = addresses.parse_namespace(namespace)
        found, token = entries.list_entries(lake, where, page, most, recursive=recursive)
        details = entries.load_details(lake, [entry for entry in found if entry.is_table]) if long else {}

    def document(entry: "entries.ListingEntry") -> dict[str, Any]:
        content = {
            "type": entry.type,
            "name": entry.name,
            "id": list(entry.id),
            "address": addresses.format_address(entry.id),
        }
        return {**content, **details[entry.id].document()} if entry.id in details else content

    def view() -> Iterable[Block]:
        name = Column("address" if recursive else "name", whole=True)
        columns = [name, Column("type", "cyan")]
        rows = []
        for entry in found:
            label = addresses.format_address(entry.id) if recursive else entry.name
            rows.append([label, entry.type, *(entries.format_cells(details.get(entry.id)) if long else [])])
        yield Table(columns + (entries.COLUMNS if long else []), rows, empty="no namespaces and no tables")
        if token is not None:
            yield Note(f"there are more: use --limit 0 for all, or --page {token}")

    entries_ = (document(entry) for entry in found)
    session.output.show({"namespace": list(where), "entries": entries_, "next_page": token}, view)


@command(app, "tree", examples=["pennon tree --depth 2", "pennon tree prod"])
def tree(
    session: Session,
    namespace: Namespace = None,
    *,
    depth: Annotated[int | None, typer.Option(min=1, help="How many levels to show.")] = None,
    namespaces_only: Annotated[bool, typer.Option("--namespaces", help="Show namespaces only.")] = False,
    limit: Annotated[
        int | None, typer.Option(min=0, help="How many tables of each namespace to show on a terminal; 0 for all.")
    ] = 20,
) -> None:
    """Show namespaces and tables as a tree."""
    from pennon import addresses
    from pennon.cli import catalog_tree
    from pennon.cli.table_access import translate_failures

    with session.lake() as lake, translate_failures("tree", namespace):
        where = addresses.parse_namespace(namespace)
        top = catalog_tree.build_tree(lake, where, depth=depth, with_tables=not namespaces_only)

    def view() -> Iterable[Block]:
        yield Lines(catalog_tree.draw_lines(top, limit or None))
        yield Note(catalog_tree.summarize_tree(top))

    session.output.show({"id": list(where), **catalog_tree.tree_document(top)}, view)


@command(app, "info", examples=["pennon info", "pennon info prod.events --size"])
def info(
    session: Session,
    address: Annotated[
        str | None, typer.Argument(metavar="[TABLE|NAMESPACE]", help="The default is the whole catalog.")
    ] = None,
    *,
    size: Annotated[bool, typer.Option("--size", help="Also add up the sizes of all files of a table.")] = False,
) -> None:
    """Describe a table, a namespace or the catalog."""
    from pennon import addresses
    from pennon.cli.table_access import translate_failures

    with session.lake() as lake, translate_failures("info", address):
        from pennon.cli import descriptions

        found = descriptions.describe_object(lake, addresses.parse_namespace(address), with_size=size)

    def view() -> Iterable[Block]:
        yield Fields(found.fields)
        if found.problems:
            yield Note("These entries of the root cannot be used. They are skipped, and not deleted:")
            columns = [Column("entry", whole=True), Column("reason", whole=True), Column("fix", whole=True)]
            yield Table(columns, [[one.entry, one.reason, one.fix] for one in found.problems])

    session.output.show(found.document, view)


@command(app, "migrate", examples=["pennon migrate --dry-run", "pennon migrate"])
def migrate(
    session: Session,
    *,
    markers: Annotated[
        bool,
        typer.Option("--markers", help="Instead, copy markers of other clients from table directories to the root."),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Add root tables to the manifest (V1 to V2).

    No data is moved. The command can be repeated.
    """
    from pennon.cli.table_access import translate_failures

    with session.lake() as lake, translate_failures("migrate"):
        if markers:
            lifted = lake.migrate_markers(dry_run=dry_run)
            kinds = {"deregistered": lifted.deregistered, "declared": lifted.declared, "removed": lifted.removed}
            rows = [[name, kind] for kind, names in kinds.items() for name in names]
            columns = [Column("table", whole=True), Column("marker", "cyan")]
            session.output.show(
                {"dry_run": dry_run, **kinds}, lambda: [Table(columns, rows, empty="all markers are up to date")]
            )
            return
        report = lake.migrate(dry_run=dry_run)
    session.output.show(_migration_document(report), lambda: _migration_view(report))


def _migration_document(report: "MigrationReport") -> dict[str, Any]:
    return {
        "dry_run": report.dry_run,
        "migrated": [{"name": table.name, "location": table.location} for table in report.migrated],
        "already": report.already,
        "skipped": [{"name": entry.name, "reason": entry.reason} for entry in report.skipped],
    }


def _migration_view(report: "MigrationReport") -> Iterable[Block]:
    done = "would be migrated" if report.dry_run else "migrated"
    rows = [[table.name, done] for table in report.migrated]
    rows += [[entry.name, f"skipped: {entry.reason}"] for entry in report.skipped]
    yield Table([Column("table", whole=True), Column("result")], rows, empty="nothing to migrate")
    if report.already:
        yield Note(f"{len(report.already):,} tables are already in the manifest")
