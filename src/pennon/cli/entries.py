"""The entries that `pennon ls` lists, and details of opened tables."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lance_namespace as sdk

from pennon.cli.output import Column
from pennon.cli.terminal_text import format_line
from pennon.cli.values import format_time
from pennon.errors import InvalidInputError, InvalidTableStateError, NamespaceNotFoundError
from pennon.identifiers import Identifier, split_object_id
from pennon.progress import show_progress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pennon.api import LakeCatalog

NAMESPACE, TABLE = "namespace", "table"
COLUMNS = [
    Column("version", right=True),
    Column("rows", right=True),
    Column("columns", right=True),
    Column("changed (UTC)"),
]
_OPENED_AT_ONCE = 8


@dataclass(frozen=True)
class ListingEntry:
    """A namespace or a table."""

    type: str
    id: Identifier

    @property
    def name(self) -> str:
        """The last name of the identifier."""
        return self.id[-1]

    @property
    def is_table(self) -> bool:
        """True for a table, False for a namespace."""
        return self.type == TABLE


@dataclass(frozen=True)
class TableDetails:
    """Details of a table. Empty if the table is only declared; `error` if it could not be opened."""

    version: int | None = None
    rows: int | None = None
    columns: int | None = None
    changed: datetime | None = None
    error: str | None = None

    def document(self) -> dict[str, Any]:
        """Return the details as JSON."""
        content = {"version": self.version, "rows": self.rows, "columns": self.columns, "changed_at": self.changed}
        return content if self.error is None else {**content, "error": self.error}


def list_entries(
    lake: LakeCatalog, where: Identifier, token: str | None, limit: int | None, *, recursive: bool
) -> tuple[list[ListingEntry], str | None]:
    """Return a page of a namespace's children, namespaces first, or of all tables below it, and the next token.

    For a table, the page has only the table itself.
    """
    try:
        if recursive:
            request = sdk.ListTablesRequest(id=list(where), limit=limit, page_token=token)
            page = lake.namespace.list_all_tables(request)
            return [ListingEntry(TABLE, split_object_id(key)) for key in page.tables], page.page_token
        return _list_children(lake, where, token, limit)
    except NamespaceNotFoundError as error:
        if where not in lake:
            raise NamespaceNotFoundError(f"{error}{lake.suggest_similar(where)}") from error
        return [ListingEntry(TABLE, where)], None


def _list_children(
    lake: LakeCatalog, where: Identifier, token: str | None, limit: int | None
) -> tuple[list[ListingEntry], str | None]:
    """Return a page of children. Its token has the type of the next entry, and the catalog's token for that type."""
    kind, _, inner = (token or "").partition("/")
    if kind not in {"", NAMESPACE, TABLE}:
        raise InvalidInputError(f"Bad page token {token!r}")
    found: list[ListingEntry] = []
    if kind != TABLE:
        request = sdk.ListNamespacesRequest(id=list(where), limit=limit, page_token=inner or None)
        children = lake.namespace.list_namespaces(request)
        found += [ListingEntry(NAMESPACE, (*where, name)) for name in children.namespaces]
        if children.page_token:
            return found, f"{NAMESPACE}/{children.page_token}"
        inner = ""
    missing = None if limit is None else limit - len(found)
    # One table is asked for even if the page is full, to know whether there is another page.
    listed = lake.namespace.list_tables(
        sdk.ListTablesRequest(id=list(where), limit=missing if missing is None else max(missing, 1), page_token=inner)
    )
    if missing == 0:
        return found, f"{TABLE}/" if listed.tables and limit else None
    found += [ListingEntry(TABLE, (*where, name)) for name in listed.tables]
    return found, f"{TABLE}/{listed.page_token}" if listed.page_token else None


def load_details(lake: LakeCatalog, found: Sequence[ListingEntry]) -> dict[Identifier, TableDetails]:
    """Return the details of tables, opened several at a time. A table that cannot be opened has its error."""
    pool = ThreadPoolExecutor(_OPENED_AT_ONCE)
    looked = {}
    try:
        with show_progress("opening tables", len(found)) as advance:
            opening = {entry.id: pool.submit(_load_details, lake, entry.id) for entry in found}
            for identifier, future in opening.items():
                looked[identifier] = future.result()
                advance(1)
    finally:
        # After Ctrl-C, tables that are still queued are not opened.
        pool.shutdown(cancel_futures=True)
    return looked


def format_cells(found: TableDetails | None) -> list[str]:
    """Return the cells of `COLUMNS`."""
    if found is None:
        return ["", "", "", ""]
    if found.error is not None:
        return ["error", "", "", format_line(found.error)]
    if found.version is None:
        return ["", "", "", "declared, no data yet"]
    return [str(found.version), f"{found.rows:,}", str(found.columns), format_time(found.changed)]


def _load_details(lake: LakeCatalog, identifier: Identifier) -> TableDetails:
    try:
        found = lake.table(identifier).summary()
    except InvalidTableStateError:
        return TableDetails()
    except Exception as error:  # noqa: BLE001 - one damaged table must not hide the others
        return TableDetails(error=str(error))
    return TableDetails(found.version, found.rows, found.columns, found.committed_at)
