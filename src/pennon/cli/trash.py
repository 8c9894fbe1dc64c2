"""What is dropped, and dropping it: `drop`, `undrop`, `trash`, `purge`."""

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any

import typer

from pennon.cli.arguments import DryRun, Namespace, TableArgument, Yes
from pennon.cli.commands import command, new_app
from pennon.cli.completion import complete_address
from pennon.cli.consent import require_consent
from pennon.cli.failures import CommandFailure, ExitCode, of_code
from pennon.cli.output import Block, Column, Note, Table
from pennon.cli.session import Session
from pennon.cli.values import moment, size

app = new_app()

IsNamespace = Annotated[bool, typer.Option("--namespace", help="A namespace is meant, not a table.")]
DropId = Annotated[
    str | None, typer.Option("--id", metavar="ID", help="One of several drops of the same name; see pennon trash.")
]
_NAMED = 5


@command(app, "drop")
def drop(
    session: Session,
    addresses_: Annotated[
        list[str], typer.Argument(metavar="TABLE...", help="Such as prod.events.", autocompletion=complete_address)
    ],
    *,
    namespace: IsNamespace = False,
    cascade: Annotated[bool, typer.Option("--cascade", help="A namespace with all that is in it.")] = False,
    ttl: Annotated[
        str | None, typer.Option("--ttl", metavar="TIME", help="How long to keep it: 0, 90s, 15m, 12h, 7d.")
    ] = None,
    purge_: Annotated[bool, typer.Option("--purge", help="Delete the data at once and for good.")] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="What is not there is fine.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also if it is protected.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Drop tables or namespaces; they can be brought back.

    Their data is kept for a week, unless --ttl or the property drop_ttl says otherwise.
    """
    if cascade and not namespace:
        raise CommandFailure("--cascade is for namespaces: give --namespace, too")
    if namespace and purge_:
        raise CommandFailure("--purge is for tables: drop the namespace, then purge what was in it")
    with session.catalog() as catalog:
        from pennon import durations
        from pennon.cli import addresses, dropping
        from pennon.cli.opened import asking

        with asking("drop", addresses_[0] if len(addresses_) == 1 else None):
            kept_ms = catalog.settings.drop_ttl_ms if ttl is None else durations.parse_milliseconds(ttl, "--ttl")
            how = dropping.How(cascade=cascade, ttl_ms=kept_ms, for_good=purge_, force=force)
            read = addresses.namespace if namespace else addresses.table
            there = dropping.chosen(
                catalog, [read(one) for one in addresses_], namespace=namespace, if_exists=if_exists, how=how
            )
            if there and not dry_run:
                require_consent(_question(there, namespace=namespace, how=how), yes=yes)
            results: list[dict[str, Any]] = []
            try:
                for one in there:
                    done = dropping.drop(catalog, one, namespace=namespace, how=how, dry_run=dry_run)
                    results.append(done)
            finally:
                # What was dropped before another one failed is told in any case.
                if results or not there:
                    _show_dropped(session, results, namespace=namespace, how=how, dry_run=dry_run)


def _show_dropped(session: Session, results: list[dict[str, Any]], *, namespace: bool, how: Any, dry_run: bool) -> None:
    from pennon.cli import addresses

    word = ("would be " if dry_run else "") + ("deleted for good" if how.for_good else "dropped")

    def view() -> Iterable[Block]:
        yield from (Note(f"{addresses.shown(tuple(result['id']))} {word}") for result in results)
        if not results:
            yield Note("nothing to drop")

    kind = "namespaces" if namespace else "tables"
    session.output.show({kind: results, "purged": how.for_good, "dry_run": dry_run}, view)


@command(app, "undrop")
def undrop(
    session: Session,
    table: TableArgument,
    *,
    as_: Annotated[str | None, typer.Option("--as", metavar="NEW", help="Bring it back under this address.")] = None,
    drop_id: DropId = None,
    namespace: IsNamespace = False,
    dry_run: DryRun = False,
) -> None:
    """Bring back what was dropped."""
    if namespace and as_ is not None:
        raise CommandFailure("--as is for tables: a namespace comes back under its own name")
    with session.catalog() as catalog:
        from pennon.cli import addresses, dropping
        from pennon.cli.opened import asking
        from pennon.directory.lifecycle import undrop

        with asking("undrop", table):
            identifier = addresses.namespace(table) if namespace else addresses.table(table)
            target = None if as_ is None else addresses.table(as_)
            document: dict[str, Any] = {"id": list(target or identifier), "dry_run": dry_run}
            if dry_run:
                document |= dropping.require_restorable(catalog, identifier, target, drop_id, namespace=namespace)
            elif namespace:
                restored = undrop.undrop_namespace(catalog, identifier, drop_id)
                document["tables"] = [list(one) for one in restored]
            else:
                document["location"] = catalog.shown_location(undrop.undrop(catalog, identifier, target, drop_id))
    word = "would come back" if dry_run else "is back"
    text = f"{addresses.shown(tuple(document['id']))} {word}"
    session.output.show(document, lambda: [Note(text)])


@command(app, "trash")
def trash(
    session: Session,
    namespace: Namespace = None,
    *,
    due: Annotated[bool, typer.Option("--due", help="Only what may be purged by now.")] = False,
    long: Annotated[bool, typer.Option("--long", "-l", help="Open each table for its rows and bytes.")] = False,
) -> None:
    """List what is dropped."""
    with session.catalog() as catalog:
        from pennon.cli import addresses, dropping
        from pennon.cli.opened import asking
        from pennon.directory.retention import FIX

        with asking("trash", namespace):
            below = addresses.namespace(namespace)
            found = dropping.listed(catalog, below, due=due, detailed=long)

    def view() -> Iterable[Block]:
        columns = [Column("address", whole=True), Column("type", "cyan"), Column("dropped (UTC)"), Column("kept until")]
        columns += [Column("rows", right=True), Column("size", right=True)] if long else []
        rows = []
        for one in found:
            state = _kept_until(one)
            row = [addresses.shown(tuple(one["id"])), one["type"], moment(one["dropped_at"]), state]
            if long:
                row.append("" if one["rows"] is None else f"{one['rows']:,}")
                row.append("" if one["bytes"] is None else size(one["bytes"]))
            rows.append([*row, one["drop_id"]])
        yield Table([*columns, Column("id", "dim", whole=True)], rows, empty="nothing is dropped")
        for one in found:
            if one["kept_because"]:
                address = addresses.shown(tuple(one["id"]))
                yield Note(f"for how long {address} is kept cannot be read: {one['kept_because']}; {FIX}")

    session.output.show({"dropped": found}, view)


@command(app, "purge")
def purge(
    session: Session,
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="[TABLE]...", help="Dropped tables; all that are due, otherwise.")
    ] = None,
    *,
    before: Annotated[
        str | None,
        typer.Option(
            "--before", metavar="TIME", help="Of all that are due, those dropped before 2026-01-31 or 30d ago."
        ),
    ] = None,
    drop_id: DropId = None,
    force: Annotated[bool, typer.Option("--force", help="Also before its time, and if it is protected.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> int:
    """Delete dropped tables for good."""
    if before is not None and tables:
        raise CommandFailure("Give tables or --before, not both")
    if drop_id is not None and len(tables or ()) != 1:
        raise CommandFailure("--id goes with one table")
    if force and not tables:
        raise CommandFailure("--force goes with tables that are named")
    with session.catalog() as catalog:
        from pennon.cli import addresses, dropping
        from pennon.cli.opened import asking
        from pennon.cli.progress import progress

        with asking("purge", tables[0] if tables and len(tables) == 1 else None):
            identifiers = [addresses.table(one) for one in tables or ()]
            wish = dropping.Purge(identifiers, drop_id, _moment(before), force=force)
            planned = dropping.purge(catalog, wish, dry_run=True)
            report = planned
            if planned.tables and not dry_run:
                total = sum(one.bytes for one in planned.tables)
                names = _names([one.id for one in planned.tables])
                require_consent(f"Delete {names} for good ({size(total)})?", yes=yes)
                with progress("purging", len(planned.tables)) as advance:
                    report = dropping.purge(catalog, wish, dry_run=False, progress=lambda *_: advance(1))
            elif not dry_run:
                # Dropped namespaces whose time is over go, too.
                report = dropping.purge(catalog, wish, dry_run=False)

    def view() -> Iterable[Block]:
        columns = [
            Column("address", whole=True),
            Column("files", right=True),
            Column("size", right=True),
            Column("result"),
        ]
        done = "would go" if dry_run else "gone"
        rows = [
            [
                addresses.shown(tuple(one.id)),
                f"{one.files:,}",
                size(one.bytes),
                done if one.error is None else one.error,
            ]
            for one in report.tables
        ]
        yield Table(columns, rows, empty="nothing to purge")
        for one in report.kept:
            yield Note(f"{addresses.shown(tuple(one.id))} is kept: {one.reason}; {one.fix}")

    content = [
        {"id": one.id, "drop_id": one.deletion_id, "files": one.files, "bytes": one.bytes, "error": one.error}
        for one in report.tables
    ]
    kept = [{"id": one.id, "drop_id": one.deletion_id, "reason": one.reason, "fix": one.fix} for one in report.kept]
    document = {"tables": content, "failed": len(report.failed), "kept": kept, "dry_run": dry_run}
    session.output.show(document, view)
    return ExitCode.DONE if not report.failed else of_code(report.failed[0].code)


def _kept_until(one: dict[str, Any]) -> str:
    if one["being_purged"]:
        return "being purged"
    return "it is forced out" if one["kept_because"] else moment(one["purgeable_at"])


def _question(there: list[Any], *, namespace: bool, how: Any) -> str:
    what = _names([list(one) for one in there], "namespace" if namespace else "table")
    if how.for_good:
        return f"Drop {what} and delete the data for good?"
    if namespace and not how.cascade:
        return f"Drop {what}?"
    inside = " with all that is in it" if namespace else ""
    kept = f"It can be brought back for {_span(how.ttl_ms)}." if how.ttl_ms else "It may be purged at once."
    return f"Drop {what}{inside}? {kept}"


def _names(ids: list[list[str]], kind: str = "table") -> str:
    from pennon.cli import addresses

    shown = ", ".join(f"'{addresses.shown(tuple(one))}'" for one in ids[:_NAMED])
    more = f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else ""
    return f"{kind}{'s' if len(ids) > 1 else ''} {shown}{more}"


def _span(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length and seconds % length == 0:
            count = seconds // length
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return f"{seconds} seconds"


def _moment(text: str | None) -> datetime | None:
    """Read a moment: a date or time, in UTC unless it says otherwise, or how long ago."""
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
            raise CommandFailure(f"--before takes a date such as 2026-01-31, a time, or 30d, got {text!r}") from None
        return datetime.now(timezone.utc) - timedelta(milliseconds=ago)
    return when if when.tzinfo is not None else when.replace(tzinfo=timezone.utc)
