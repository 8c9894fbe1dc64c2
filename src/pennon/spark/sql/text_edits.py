"""The changes of a query's text: tables become views, which keep the names that columns are qualified with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from pennon.spark.quoting import quote_name
from pennon.spark.sql.pruning import find_name_chains, index_identifiers
from pennon.spark.sql.references import TableReference, fold_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlglot import Token

    from pennon.spark.sql.scopes import Scopes


@dataclass(frozen=True)
class TextEdit:
    """Replaces the text from `start` to `end`: by the view of reference number `table`, or by `text`."""

    start: int
    end: int
    table: int | None = None
    text: str = ""


def edit_tables(references: Sequence[TableReference]) -> list[TextEdit]:
    """Replace the tables of a query that is not understood."""
    return [edit for reference in references for edit in _table_edits(reference, reference.name)]


def edit_names(tokens: Sequence[Token], scopes: Scopes) -> list[TextEdit]:
    """Replace the tables of a query, and shorten names such as `prod.events.x`, since a view has no namespace."""
    qualified = list(_qualified(tokens, scopes))
    fully_named = {reference for _, _, reference in qualified}
    aliases = {
        reference: f"__pennon_{reference.number}"
        if reference in fully_named and _has_namesake(reference, scopes)
        else reference.name
        for reference in scopes.references
    }
    edits = [edit for reference in scopes.references for edit in _table_edits(reference, aliases[reference])]
    return [*edits, *(TextEdit(start, end, text=quote_name(aliases[reference])) for start, end, reference in qualified)]


def _table_edits(reference: TableReference, alias: str) -> Iterator[TextEdit]:
    yield TextEdit(reference.start, reference.end, table=reference.number)
    if reference.alias_at is not None:
        yield TextEdit(reference.alias_at, reference.alias_at, text=f" AS {quote_name(alias)}")


def _qualified(tokens: Sequence[Token], scopes: Scopes) -> Iterator[tuple[int, int, TableReference]]:
    """Find columns that are qualified with more than the last part of a table's name."""
    places = index_identifiers(scopes.tree)
    tables = {reference.start for reference in scopes.references}
    for chain in find_name_chains(tokens):
        node = places.get(chain[0].start)
        select = None if node is None else node.find_ancestor(exp.Select)
        if select is None or chain[0].start in tables or _is_table(node):
            continue
        # The last part is the column, unless a star follows, which is no part of the chain.
        for length in range(len(chain), 1, -1):
            if length == len(chain) and not _before_star(node):
                continue
            relations = scopes.find_relations(select, [token.text for token in chain[:length]])
            following = chain[length].text if length < len(chain) else None
            if relations and relations[0].reference is not None and _shows(relations[0].reference, following):
                yield chain[0].start, chain[length - 1].end + 1, relations[0].reference
                break


def _shows(reference: TableReference, column: str | None) -> bool:
    """Return True if a table has a column; else Spark looks for a shorter qualifier. A star stands for all of them."""
    return column is None or any(fold_name(column) == fold_name(name) for name in reference.table.schema.names)


def _is_table(node: exp.Expr | None) -> bool:
    return (
        node is not None
        and node.find_ancestor(exp.Table, exp.Column, exp.Dot, exp.Select) is not None
        and (isinstance(node.find_ancestor(exp.Table, exp.Column, exp.Select), exp.Table))
    )


def _before_star(node: exp.Expr | None) -> bool:
    column = None if node is None else node.find_ancestor(exp.Column)
    whole = None if column is None else column.find_ancestor(exp.Dot) or column
    return whole is not None and whole.find(exp.Star) is not None


def _has_namesake(reference: TableReference, scopes: Scopes) -> bool:
    select = None if reference.node is None else reference.node.find_ancestor(exp.Select)
    if select is None:
        return False
    names = [one.name for one in scopes.relations(select) if one.name is not None]
    return sum(fold_name(name) == fold_name(reference.name) for name in names) > 1
