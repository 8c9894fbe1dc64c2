"""The trash: dropped tables with the time that is left, restored or purged by a form."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from pennon.directory.lifecycle import dropped
from pennon.errors import InvalidInputError, TableNotFoundError, UnsupportedOperationError
from pennon.identifiers import (
    format_identifier,
    object_id,
    parse_table_name,
    quote_identifier,
    split_object_id,
    table_identifier,
)
from pennon.server.pages import paths
from pennon.server.pages.rendering import redirect
from pennon.server.permissions.rights import Need, Right

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.responses import Response

    from pennon.identifiers import Identifier
    from pennon.results import DroppedTable
    from pennon.server.pages.page_request import PageRequest

PAGE_SIZE = 50


@dataclass(frozen=True)
class TrashLine:
    """A dropped table, and what the reader of the page may do with it."""

    table: DroppedTable
    identifier: Identifier
    left: timedelta | None
    """The time until it may be purged; None if it is due, or if nobody knows."""
    can_restore: bool
    can_purge: bool


def show_trash(request: PageRequest) -> Response:
    """Return the dropped tables of a namespace, or of the whole catalog."""
    is_everywhere = request.catalog is not None and not request.text("namespace")
    found: list[DroppedTable] = []
    token = None
    unsupported = ""
    try:
        found, token = _list_dropped(request, is_everywhere=is_everywhere)
    except UnsupportedOperationError as error:
        # Some Iceberg servers keep dropped tables themselves.
        unsupported = str(error)
    now = datetime.now(timezone.utc)
    query = {"namespace": request.text("namespace"), "page": token}
    return request.render(
        "trash.html",
        "Trash",
        place=request.container,
        section="trash",
        lines=[_make_line(request, one, now) for one in found],
        is_everywhere=is_everywhere,
        more=token and paths.with_query(paths.TRASH, **query),
        is_later_page=request.page_token is not None,
        notice=_make_notice(request),
        unsupported=unsupported,
    )


def _list_dropped(request: PageRequest, *, is_everywhere: bool) -> tuple[list[DroppedTable], str | None]:
    if not is_everywhere:
        return request.namespace.list_dropped_tables(list(request.container), request.page_token, PAGE_SIZE)
    return dropped.list_dropped(
        request.directory,
        None,
        request.page_token,
        PAGE_SIZE,
        choose=lambda one: request.allows(Right.MANAGE, "table", one),
    )


def confirm_purge(request: PageRequest) -> Response:
    """Return the page that asks before a table is purged."""
    now = datetime.now(timezone.utc)
    found = find_dropped(request, request.table, request.text("deletion"))
    return request.render(
        "purge.html",
        f"Purge {quote_identifier(request.table)}",
        place=request.table[:-1],
        section="trash",
        line=_make_line(request, found, now),
    )


def restore(request: PageRequest) -> Response:
    """Restore a dropped table, under its own name or another one."""
    target = find_target(request)
    request.namespace.undrop_table(
        list(request.table), None if target is None else list(target), request.text("deletion") or None
    )
    return redirect(paths.with_query(paths.TRASH, done="restored", table=object_id(target or request.table)))


def purge(request: PageRequest) -> Response:
    """Purge a dropped table. Raises InvalidInputError unless its name was typed."""
    name = quote_identifier(request.table)
    if request.text("confirmation") != name:
        raise InvalidInputError(f"The table was not purged: type its name, {name}, to confirm")
    report = request.namespace.purge_table(
        list(request.table), request.text("deletion") or None, force=request.text("force") == "yes"
    )
    if report.failed:
        raise InvalidInputError(f"Table {format_identifier(request.table)} was not purged: {report.failed[0].error}")
    return redirect(paths.with_query(paths.TRASH, done="purged", table=object_id(request.table)))


def find_target(request: PageRequest) -> Identifier | None:
    """Return the name under which a table is to be restored, if it is not its own."""
    given = request.text("as")
    return parse_table_name(given) if given else None


def to_restore(request: PageRequest) -> Iterable[Need]:
    """Need to manage the table, and to create the one of the new name."""
    yield Need(Right.MANAGE, "table", request.table)
    target = find_target(request)
    if target is not None:
        yield Need(Right.CREATE, "table", target)


def find_dropped(request: PageRequest, identifier: Identifier, deletion_id: str) -> DroppedTable:
    """Return a dropped table. Raises TableNotFoundError if it is not in the trash."""
    if request.catalog is not None:
        found = dropped.list_drops(request.catalog, identifier, deletion_id or None)
    else:
        tables, _ = request.namespace.list_dropped_tables(list(identifier[:-1]))
        found = [one for one in tables if tuple(one.id) == identifier and deletion_id in {"", one.deletion_id}]
    if not found:
        raise TableNotFoundError(f"Table {format_identifier(identifier)} is not in the trash any more")
    return max(found, key=lambda one: one.dropped_at)


def _make_line(request: PageRequest, table: DroppedTable, now: datetime) -> TrashLine:
    identifier = table_identifier(table.id)
    return TrashLine(
        table,
        identifier,
        None if table.is_due(now) or table.fault is not None else table.purgeable_at - now,
        request.allows(Right.MANAGE, "table", identifier) and not table.being_purged,
        request.allows(Right.ADMINISTER, "table", identifier),
    )


def _make_notice(request: PageRequest) -> tuple[str, Identifier] | None:
    """Return what the form before this page has done."""
    done, name = request.text("done"), request.text("table")
    return (done, table_identifier(split_object_id(name))) if done in {"restored", "purged"} and name else None
