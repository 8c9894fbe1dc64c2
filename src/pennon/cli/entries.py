"""The entries that `pennon ls` lists, and details of opened tables."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pennon.cli.output import Column
from pennon.cli.terminal_text import format_line
from pennon.cli.values import format_time
from pennon.directory import namespaces
from pennon.directory.lookup import describe, listing
from pennon.errors import InvalidInputError, NamespaceNotFoundError, TableNotFoundError, translate_errors
from pennon.identifiers import Identifier, split_object_id
from pennon.paging import encode_token, fetch_page
from pennon.progress import show_progress
from pennon.table.version_summary import summarize_version

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pennon.directory.catalog import Catalog

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
    catalog: Catalog, where: Identifier, token: str | None, limit: int | None, *, recursive: bool
) -> tuple[list[ListingEntry], str | None]:
    """Return a page of a namespace's children, namespaces first, or of all tables below it, and the next token.

    For a table, the page has only the table itself.
    """
    try:
        if recursive:
            ids, next_token = listing.list_all_tables(catalog, where, token, limit, include_declared=True)
            return [ListingEntry(TABLE, split_object_id(key)) for key in ids], next_token
        chosen, next_token = fetch_page(
            lambda after, most: _list_keys(catalog, where, after, most), token, limit, takes_names=False
        )
    except NamespaceNotFoundError:
        if not _is_table(catalog, where):
            raise
        return [ListingEntry(TABLE, where)], None
    parts = (key.partition("/") for key in chosen)
    return [ListingEntry(kind, (*where, name)) for kind, _, name in parts], next_token


def _list_keys(catalog: Catalog, where: Identifier, after: str, most: int | None) -> list[str]:
    """Return the type and name of each child after one, namespaces first. Names contain no slashes."""
    kind, _, name = after.partition("/")
    if kind not in {"", NAMESPACE, TABLE}:
        raise InvalidInputError(f"Bad page token: {after!r} is not an entry")
    token = encode_token(name) if name else None
    keys = []
    if kind != TABLE:
        inner, _ = namespaces.list_children(catalog, where, token, most)
        keys, token = [f"{NAMESPACE}/{one}" for one in inner], None
    if most is None or len(keys) < most:
        missing = None if most is None else most - len(keys)
        names, _ = listing.list_tables(catalog, where, token, missing, include_declared=True)
        keys += [f"{TABLE}/{one}" for one in names]
    return keys


def load_details(catalog: Catalog, found: Sequence[ListingEntry]) -> dict[Identifier, TableDetails]:
    """Return the details of tables, opened several at a time. A table that cannot be opened has its error."""
    pool = ThreadPoolExecutor(_OPENED_AT_ONCE)
    looked = {}
    try:
        with show_progress("opening tables", len(found)) as advance:
            opening = {entry.id: pool.submit(_load_details, catalog, entry.id) for entry in found}
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


def _load_details(catalog: Catalog, identifier: Identifier) -> TableDetails:
    try:
        with translate_errors(f"opening {identifier[-1]!r}"):
            _, dataset = describe.open_table(catalog, identifier)
            if dataset is None:
                return TableDetails()
            state = summarize_version(dataset)
            return TableDetails(state.version, state.rows, len(dataset.schema), state.changed)
    except Exception as error:  # noqa: BLE001 - one damaged table must not hide the others
        return TableDetails(error=str(error))


def _is_table(catalog: Catalog, identifier: Identifier) -> bool:
    try:
        catalog.resolver.table(identifier)
    except (NamespaceNotFoundError, TableNotFoundError, IndexError):
        return False
    return True
