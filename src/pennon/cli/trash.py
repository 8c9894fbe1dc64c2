"""The commands `drop`, `undrop`, `trash` and `purge`."""

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pennon.cli.arguments import DryRun, Namespace, TableArgument, Yes
from pennon.cli.commands import command, new_app
from pennon.cli.completion import complete_address
from pennon.cli.consent import require_consent
from pennon.cli.failures import CommandFailure, ExitCode, exit_code_for
from pennon.cli.output import Block, Column, Note, Table
from pennon.cli.session import Session
from pennon.cli.values import format_size, format_time

if TYPE_CHECKING:
    from pennon.cli.dropping import DropCommand

app = new_app()

IsNamespace = Annotated[bool, typer.Option("--namespace", help="The address is that of a namespace.")]
DropId = Annotated[
    str | None, typer.Option("--id", metavar="ID", help="Selects one of several drops of a name; see pennon trash.")
]
_NAMED = 5


@command(app, "drop", examples=["pennon drop prod.events", "pennon drop prod --namespace --cascade --ttl 30d"])
def drop(
    session: Session,
    addresses_: Annotated[
        list[str], typer.Argument(metavar="TABLE...", help="For example prod.events.", autocompletion=complete_address)
    ],
    *,
    namespace: IsNamespace = False,
    cascade: Annotated[bool, typer.Option("--cascade", help="Also drop everything in the namespace.")] = False,
    ttl: Annotated[
        str | None, typer.Option("--ttl", metavar="TIME", help="How long to keep the data: 0, 90s, 15m, 12h, 7d.")
    ] = None,
    purge_: Annotated[bool, typer.Option("--purge", help="Delete the data at once and permanently.")] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Skip what does not exist.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Drop it even if it is protected.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Drop tables or namespaces; they can be restored.

    The data is kept for a week, or as long as --ttl or the property drop_ttl requires.
    """
    if cascade and not namespace:
        raise CommandFailure("--cascade is only for namespaces: use it with --namespace")
    if namespace and purge_:
        raise CommandFailure("--purge is only for tables: drop the namespace, then purge its tables")
    with session.lake() as lake:
        from pennon import addresses, durations
        from pennon.cli import dropping
        from pennon.cli.session import find_directory
        from pennon.cli.table_access import translate_failures

        with translate_failures("drop", addresses_[0] if len(addresses_) == 1 else None):
            catalog = find_directory(lake)
            # Other catalogs have a retention of their own.
            default_ms = None if catalog is None else catalog.settings.drop_ttl_ms
            kept_ms = default_ms if ttl is None else durations.parse_milliseconds(ttl, "--ttl")
            options = dropping.DropCommand(namespace=namespace, cascade=cascade, ttl=ttl, purge=purge_, force=force)
            read = addresses.parse_namespace if namespace else addresses.parse_table
            there = dropping.require_droppable(
                lake, [read(one) for one in addresses_], if_exists=if_exists, options=options
            )
            if there and not dry_run:
                require_consent(_format_question(there, options, kept_ms), yes=yes)
            results: list[dict[str, Any]] = []
            try:
                results.extend(
                    {"id": list(one)} if dry_run else dropping.drop_object(lake, one, options) for one in there
                )
            finally:
                # Report what was dropped, even if a later drop failed.
                if results or not there:
                    _show_dropped(session, results, options, dry_run=dry_run)


def _show_dropped(session: Session, results: list[dict[str, Any]], options: "DropCommand", *, dry_run: bool) -> None:
    from pennon import addresses

    word = ("would be " if dry_run else "") + ("deleted permanently" if options.purge else "dropped")

    def view() -> Iterable[Block]:
        yield from (Note(f"{addresses.format_address(tuple(result['id']))} {word}") for result in results)
        if not results:
            yield Note("nothing to drop")

    kind = "namespaces" if options.namespace else "tables"
    session.output.show({kind: results, "purged": options.purge, "dry_run": dry_run}, view)


@command(app, "undrop", examples=["pennon undrop prod.events", "pennon undrop prod.events --as prod.events_old"])
def undrop(
    session: Session,
    table: TableArgument,
    *,
    as_: Annotated[str | None, typer.Option("--as", metavar="NEW", help="Restore it under this address.")] = None,
    drop_id: DropId = None,
    namespace: IsNamespace = False,
    dry_run: DryRun = False,
) -> None:
    """Restore a dropped table or namespace."""
    if namespace and as_ is not None:
        raise CommandFailure("--as is only for tables: a namespace is restored under its own name")
    with session.lake() as lake:
        from pennon import addresses
        from pennon.cli import dropping
        from pennon.cli.table_access import translate_failures

        with translate_failures("undrop", table):
            identifier = addresses.parse_namespace(table) if namespace else addresses.parse_table(table)
            target = None if as_ is None else addresses.parse_table(as_)
            document: dict[str, Any] = {"id": list(target or identifier), "dry_run": dry_run}
            if dry_run and namespace:
                dropping.require_restorable_namespace(lake, identifier, drop_id)
            elif dry_run:
                document |= dropping.require_restorable(lake, identifier, target, drop_id)
            elif namespace:
                restored = lake.undrop_namespace(identifier, drop_id=drop_id)
                document["tables"] = [list(addresses.parse_table(one)) for one in restored]
            else:
                document["location"] = lake.undrop(identifier, new_name=target, drop_id=drop_id).location
    word = "would be restored" if dry_run else "restored"
    text = f"{addresses.format_address(tuple(document['id']))} {word}"
    session.output.show(document, lambda: [Note(text)])


@command(app, "trash", examples=["pennon trash", "pennon trash prod --long"])
def trash(
    session: Session,
    namespace: Namespace = None,
    *,
    due: Annotated[bool, typer.Option("--due", help="Only what is due to be purged.")] = False,
    long: Annotated[bool, typer.Option("--long", "-l", help="Open each table, and show its rows and size.")] = False,
) -> None:
    """List dropped tables and namespaces."""
    with session.lake() as lake:
        from pennon import addresses
        from pennon.cli import dropping
        from pennon.cli.table_access import translate_failures
        from pennon.directory.retention import FIX

        with translate_failures("trash", namespace):
            found = dropping.list_trash(lake, addresses.parse_namespace(namespace), due=due, detailed=long)

    def view() -> Iterable[Block]:
        columns = [Column("address", whole=True), Column("type", "cyan"), Column("dropped (UTC)"), Column("kept until")]
        columns += [Column("rows", right=True), Column("size", right=True)] if long else []
        rows = []
        for one in found:
            state = _format_kept_until(one)
            row = [addresses.format_address(tuple(one["id"])), one["type"], format_time(one["dropped_at"]), state]
            if long:
                row.append("" if one["rows"] is None else f"{one['rows']:,}")
                row.append("" if one["bytes"] is None else format_size(one["bytes"]))
            rows.append([*row, one["drop_id"]])
        yield Table([*columns, Column("id", "dim", whole=True)], rows, empty="nothing is dropped")
        for one in found:
            if one["kept_because"]:
                address = addresses.format_address(tuple(one["id"]))
                yield Note(f"the retention of {address} cannot be read: {one['kept_because']}; {FIX}")

    session.output.show({"dropped": found}, view)


@command(app, "purge", examples=["pennon purge --dry-run", "pennon purge prod.events --force"])
def purge(
    session: Session,
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="[TABLE]...", help="Dropped tables. The default is all that are due.")
    ] = None,
    *,
    before: Annotated[
        str | None,
        typer.Option(
            "--before",
            metavar="TIME",
            help="Only tables that are due and were dropped before this time, such as 2026-01-31 or 30d.",
        ),
    ] = None,
    drop_id: DropId = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also purge tables that are not due yet or are protected.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> int:
    """Delete dropped tables permanently."""
    if before is not None and tables:
        raise CommandFailure("Use either tables or --before, not both")
    if drop_id is not None and len(tables or ()) != 1:
        raise CommandFailure("--id needs exactly one table")
    if force and not tables:
        raise CommandFailure("--force needs the names of tables")
    with session.lake() as lake:
        from pennon import addresses
        from pennon.cli import dropping
        from pennon.cli.table_access import translate_failures

        with translate_failures("purge", tables[0] if tables and len(tables) == 1 else None):
            identifiers = [addresses.parse_table(one) for one in tables or ()]
            selection = dropping.PurgeSelection(identifiers, drop_id, _parse_time(before), force=force)
            report = planned = dropping.purge_selected(lake, selection, dry_run=True)
            if planned.tables and not dry_run:
                total = sum(one.bytes for one in planned.tables)
                names = _format_names([one.id for one in planned.tables])
                require_consent(f"Delete {names} permanently ({format_size(total)})?", yes=yes)
            if not dry_run:
                # Without tables, this still purges dropped namespaces that are due.
                report = dropping.purge_selected(lake, selection, dry_run=False)

    def view() -> Iterable[Block]:
        columns = [
            Column("address", whole=True),
            Column("files", right=True),
            Column("size", right=True),
            Column("result"),
        ]
        done = "would be deleted" if dry_run else "deleted"
        rows = [
            [
                addresses.format_address(tuple(one.id)),
                f"{one.files:,}",
                format_size(one.bytes),
                done if one.error is None else one.error,
            ]
            for one in report.tables
        ]
        yield Table(columns, rows, empty="nothing to purge")
        for one in report.kept:
            yield Note(f"{addresses.format_address(tuple(one.id))} is kept: {one.reason}; {one.fix}")

    content = [
        {"id": one.id, "drop_id": one.deletion_id, "files": one.files, "bytes": one.bytes, "error": one.error}
        for one in report.tables
    ]
    kept = [{"id": one.id, "drop_id": one.deletion_id, "reason": one.reason, "fix": one.fix} for one in report.kept]
    document = {"tables": content, "failed": len(report.failed), "kept": kept, "dry_run": dry_run}
    session.output.show(document, view)
    return ExitCode.DONE if not report.failed else exit_code_for(report.failed[0].code)


def _format_kept_until(one: dict[str, Any]) -> str:
    if one["being_purged"]:
        return "being purged"
    return "purged with --force" if one["kept_because"] else format_time(one["purgeable_at"])


def _format_question(there: list[Any], options: "DropCommand", kept_ms: int | None) -> str:
    what = _format_names([list(one) for one in there], "namespace" if options.namespace else "table")
    if options.purge:
        return f"Drop {what} and delete the data permanently?"
    if options.namespace and not options.cascade:
        return f"Drop {what}?"
    inside = " with all its contents" if options.namespace else ""
    if kept_ms is None:
        kept = "It can be restored as long as the catalog keeps it."
    elif kept_ms:
        kept = f"It can be restored for {_format_duration(kept_ms)}."
    else:
        kept = "It may be purged at once."
    return f"Drop {what}{inside}? {kept}"


def _format_names(ids: list[list[str]], kind: str = "table") -> str:
    from pennon import addresses

    shown = ", ".join(f"'{addresses.format_address(tuple(one))}'" for one in ids[:_NAMED])
    more = f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else ""
    return f"{kind}{'s' if len(ids) > 1 else ''} {shown}{more}"


def _format_duration(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length and seconds % length == 0:
            count = seconds // length
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return f"{seconds} seconds"


def _parse_time(text: str | None) -> datetime | None:
    """Parse a date, a time (UTC by default), or a duration before now."""
    if text is None:
        return None
    from pennon import durations
    from pennon.errors import InvalidInputError

    try:
        when = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        try:
            ago = durations.parse_milliseconds(text.removesuffix("ago").strip(), "--before")
        except InvalidInputError:
            raise CommandFailure(
                f"--before must be a date such as 2026-01-31, a time, or a duration such as 30d, got {text!r}"
            ) from None
        return datetime.now(timezone.utc) - timedelta(milliseconds=ago)
    return when if when.tzinfo is not None else when.replace(tzinfo=timezone.utc)
