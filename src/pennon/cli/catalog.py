"""Looking around in a catalog: `ls`, `tree`, `info`; and `migrate`, which concerns all of it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pennon.cli.arguments import DryRun, Namespace, Page
from pennon.cli.commands import command, new_app
from pennon.cli.output import Block, Column, Fields, Lines, Note, Table
from pennon.cli.session import Session

if TYPE_CHECKING:
    from pennon.results import MigrationReport

app = new_app()

_SHOWN = 1000
"""How many entries a person gets at once, unless asked otherwise."""


@command(app, "ls")
def ls(
    session: Session,
    namespace: Namespace = None,
    *,
    long: Annotated[
        bool, typer.Option("--long", "-l", help="Open each table for its version, rows and columns.")
    ] = False,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="All tables at any depth.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=0, help=f"How many entries; 0 for all. A terminal shows {_SHOWN:,}, JSON has all."),
    ] = None,
    page: Page = None,
) -> None:
    """List namespaces and tables."""
    from pennon.cli import addresses, entries
    from pennon.cli.opened import asking

    most = limit or None if limit is not None or session.output.is_json else _SHOWN
    with session.catalog() as catalog, asking("ls", namespace):
        where = addresses.namespace(namespace)
        found, token = entries.listed(catalog, where, page, most, recursive=recursive)
        details = entries.details(catalog, [entry for entry in found if entry.is_table]) if long else {}

    def document(entry: entries.Entry) -> dict[str, Any]:
        content = {"type": entry.type, "name": entry.name, "id": list(entry.id), "address": addresses.shown(entry.id)}
        return {**content, **details[entry.id].document()} if entry.id in details else content

    def view() -> Iterable[Block]:
        name = Column("address" if recursive else "name", whole=True)
        columns = [name, Column("type", "cyan")]
        rows = []
        for entry in found:
            shown = addresses.shown(entry.id) if recursive else entry.name
            rows.append([shown, entry.type, *(entries.cells(details.get(entry.id)) if long else [])])
        yield Table(columns + (entries.COLUMNS if long else []), rows, empty="nothing is there")
        if token is not None:
            yield Note(f"there is more: --limit 0 for all, or --page {token}")

    entries_ = (document(entry) for entry in found)
    session.output.show({"namespace": list(where), "entries": entries_, "next_page": token}, view)


@command(app, "tree")
def tree(
    session: Session,
    namespace: Namespace = None,
    *,
    depth: Annotated[int | None, typer.Option(min=1, help="How many levels.")] = None,
    namespaces_only: Annotated[bool, typer.Option("--namespaces", help="Namespaces only, no tables.")] = False,
    limit: Annotated[
        int | None, typer.Option(min=0, help="How many tables of each namespace a terminal shows; 0 for all.")
    ] = 20,
) -> None:
    """Show namespaces and tables as a tree."""
    from pennon.cli import addresses, branches
    from pennon.cli.opened import asking

    with session.catalog() as catalog, asking("tree", namespace):
        where = addresses.namespace(namespace)
        top = branches.grown(catalog, where, depth=depth, with_tables=not namespaces_only)

    def view() -> Iterable[Block]:
        yield Lines(branches.lines(top, limit or None))
        yield Note(branches.summary(top))

    session.output.show({"id": list(where), **branches.document(top)}, view)


@command(app, "info")
def info(
    session: Session,
    address: Annotated[
        str | None, typer.Argument(metavar="[TABLE|NAMESPACE]", help="None for the whole catalog.")
    ] = None,
    *,
    size: Annotated[bool, typer.Option("--size", help="Add up a table's files, too: lists all of them.")] = False,
) -> None:
    """Describe a table, a namespace or the catalog."""
    from pennon.cli import addresses, descriptions
    from pennon.cli.opened import asking

    with session.catalog() as catalog, asking("info", address):
        identifier = addresses.namespace(address)
        found = descriptions.described(catalog, identifier, with_size=size)

    def view() -> Iterable[Block]:
        yield Fields(found.shown)
        if found.problems:
            yield Note("These entries of the root cannot be used and are skipped; nothing of them is deleted:")
            columns = [Column("entry", whole=True), Column("reason", whole=True), Column("fix", whole=True)]
            yield Table(columns, [[one.entry, one.reason, one.fix] for one in found.problems])

    session.output.show(found.document, view)


@command(app, "migrate")
def migrate(
    session: Session,
    *,
    markers: Annotated[
        bool, typer.Option("--markers", help="Lift markers that other clients left inside of tables, instead.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Bring root tables into the manifest (V1 to V2).

    No data is moved, and running it again is harmless.
    """
    from pennon.cli.opened import asking

    with session.catalog() as catalog, asking("migrate"):
        from pennon.directory.migrate import migrate_markers
        from pennon.directory.version_management import migrate_tables

        if markers:
            lifted = migrate_markers(catalog, dry_run=dry_run)
            kinds = {"deregistered": lifted.deregistered, "declared": lifted.declared, "removed": lifted.removed}
            rows = [[name, kind] for kind, names in kinds.items() for name in names]
            columns = [Column("table", whole=True), Column("marker", "cyan")]
            session.output.show(
                {"dry_run": dry_run, **kinds}, lambda: [Table(columns, rows, empty="all markers are in place")]
            )
            return
        report = migrate_tables(catalog, dry_run=dry_run)
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
    yield Table([Column("table", whole=True), Column("result")], rows, empty="there is nothing to migrate")
    if report.already:
        yield Note(f"{len(report.already):,} tables are in the manifest already")
