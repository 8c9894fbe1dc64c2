"""Selecting the tables of a job: one table, a namespace with everything below it, a pattern, or the whole catalog.

Patterns are those of `pennon.table_patterns`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from lance_namespace_urllib3_client.models.namespace_exists_request import NamespaceExistsRequest

from pennon.catalog_pages import has_table, iterate_all_tables, suggest_similar
from pennon.errors import NamespaceNotFoundError, TableNotFoundError
from pennon.identifiers import Identifier, namespace_identifier, parse_identifier, quote_identifier
from pennon.table_patterns import TablePattern, is_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pennon.spark.address import Client

    TableSelector: TypeAlias = "str | Sequence[str] | TablePattern | SingleTable | None"


@dataclass(frozen=True)
class SingleTable:
    """Selects one table, and not a namespace of the same name."""

    identifier: Identifier

    def matches(self, identifier: Identifier) -> bool:
        """Return True if a table's identifier matches."""
        return identifier == self.identifier


def find_tables(catalog: Client, which: TableSelector) -> list[Identifier]:
    """Return the identifiers of the selected tables, sorted.

    None selects the whole catalog. A name without wild cards selects a table, or a namespace with everything below it.
    A pattern may select no table. Raises TableNotFoundError if neither a table nor a namespace has the name, and
    InvalidInputError if the pattern is malformed.
    """
    require_existing(catalog, which)
    selector = _parse(which)
    if isinstance(selector, TablePattern):
        return sorted(one for one in iterate_all_tables(catalog, ()) if selector.matches(one))
    if isinstance(selector, SingleTable):
        return [selector.identifier]
    found = [selector] if selector and has_table(catalog, selector) else []
    with suppress(NamespaceNotFoundError):
        found += iterate_all_tables(catalog, selector)
    return sorted(found)


def require_existing(catalog: Client, which: TableSelector) -> None:
    """Raise the errors of `find_tables`, without listing tables."""
    selector = _parse(which)
    if isinstance(selector, TablePattern) or not selector:
        return
    if isinstance(selector, SingleTable):
        if not has_table(catalog, selector.identifier):
            similar = suggest_similar(catalog, selector.identifier)
            raise TableNotFoundError(f"There is no table '{quote_identifier(selector.identifier)}'{similar}")
    elif not has_table(catalog, selector):
        try:
            catalog.namespace_exists(NamespaceExistsRequest(id=list(selector)))
        except NamespaceNotFoundError as error:
            shown = f"'{quote_identifier(selector)}'{suggest_similar(catalog, selector)}"
            raise TableNotFoundError(f"There is no table or namespace {shown}") from error


def is_selected(identifier: Identifier, which: TableSelector) -> bool:
    """Return True if a table that the catalog does not list, such as a dropped one, is selected."""
    selector = _parse(which)
    if isinstance(selector, tuple):
        return identifier[: len(selector)] == selector
    return selector.matches(identifier)


def _parse(which: TableSelector) -> TablePattern | SingleTable | Identifier:
    """Return a selector of tables, or the name of a table or namespace; the empty name is the whole catalog."""
    if isinstance(which, (TablePattern, SingleTable)):
        return which
    if isinstance(which, str):
        return TablePattern.parse(which) if is_pattern(which) else parse_identifier(which)
    return namespace_identifier(which)
