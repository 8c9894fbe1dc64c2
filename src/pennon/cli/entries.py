"""The entries of a listing, and what a look at each table adds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pennon.cli.opened import summary
from pennon.cli.output import Column
from pennon.cli.progress import progress
from pennon.cli.terminal_text import one_line
from pennon.cli.values import moment
from pennon.directory import namespaces
from pennon.directory.lookup import describe
from pennon.errors import NamespaceNotFoundError, TableNotFoundError, translate_errors
from pennon.identifiers import Identifier, split_object_id
from pennon.paging import select_page

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
class Entry:
    """A namespace or a table."""

    type: str
    id: Identifier

    @property
    def name(self) -> str:
        """Give the last part of its identifier."""
        return self.id[-1]

    @property
    def is_table(self) -> bool:
        """Tell whether it is a table."""
        return self.type == TABLE


@dataclass(frozen=True)
class Details:
    """What an opened table tells; nothing if it is only declared, or the error that kept it closed."""

    version: int | None = None
    rows: int | None = None
    columns: int | None = None
    changed: datetime | None = None
    error: str | None = None

    def document(self) -> dict[str, Any]:
        """Give it as JSON."""
        content = {"version": self.version, "rows": self.rows, "columns": self.columns, "changed_at": self.changed}
        return content if self.error is None else {**content, "error": self.error}


def listed(
    catalog: Catalog, where: Identifier, token: str | None, limit: int | None, *, recursive: bool
) -> tuple[list[Entry], str | None]:
    """List a page of a namespace, namespaces first; or of all tables below it. A table is listed by itself."""
    try:
        if recursive:
            ids, next_token = describe.list_all_tables(catalog, where, token, limit, include_declared=True)
            return [Entry(TABLE, split_object_id(key)) for key in ids], next_token
        inner, _ = namespaces.list_children(catalog, where, None, None)
        names, _ = describe.list_tables(catalog, where, None, None, include_declared=True)
    except NamespaceNotFoundError:
        if not _is_table(catalog, where):
            raise
        return [Entry(TABLE, where)], None
    # One sorted list for one sequence of pages. Slashes are in no name.
    keys = [f"{NAMESPACE}/{name}" for name in inner] + [f"{TABLE}/{name}" for name in names]
    chosen, next_token = select_page(keys, token, limit, takes_names=False)
    parts = (key.partition("/") for key in chosen)
    return [Entry(kind, (*where, name)) for kind, _, name in parts], next_token


def details(catalog: Catalog, found: Sequence[Entry]) -> dict[Identifier, Details]:
    """Open tables, several at a time; one that cannot be opened has its error."""
    pool = ThreadPoolExecutor(_OPENED_AT_ONCE)
    looked = {}
    try:
        with progress("opening tables", len(found)) as advance:
            opening = {entry.id: pool.submit(_details, catalog, entry.id) for entry in found}
            for identifier, future in opening.items():
                looked[identifier] = future.result()
                advance(1)
    finally:
        # After Ctrl-C nobody waits for those that were not begun.
        pool.shutdown(cancel_futures=True)
    return looked


def cells(found: Details | None) -> list[str]:
    """Give the cells of `COLUMNS`."""
    if found is None:
        return ["", "", "", ""]
    if found.error is not None:
        return ["error", "", "", one_line(found.error)]
    if found.version is None:
        return ["", "", "", "declared, no data yet"]
    return [str(found.version), f"{found.rows:,}", str(found.columns), moment(found.changed)]


def _details(catalog: Catalog, identifier: Identifier) -> Details:
    try:
        with translate_errors(f"opening {identifier[-1]!r}"):
            _, dataset = describe.opened(catalog, identifier)
            if dataset is None:
                return Details()
            state = summary(dataset)
            return Details(state.version, state.rows, len(dataset.schema), state.changed)
    except Exception as error:  # noqa: BLE001 - one bad table must not hide the others
        return Details(error=str(error))


def _is_table(catalog: Catalog, identifier: Identifier) -> bool:
    try:
        catalog.resolver.table(identifier)
    except (NamespaceNotFoundError, TableNotFoundError, IndexError):
        return False
    return True
