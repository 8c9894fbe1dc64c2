"""Edits of a query's text that replace tables by views, and keep the names that qualify columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from pennon.spark.query.columns import find_column_chains, index_identifiers
from pennon.spark.quoting import fold_name, quote_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlglot import Token

    from pennon.spark.query.references import TableReference
    from pennon.spark.query.scopes import Scopes


@dataclass(frozen=True)
class TextEdit:
    """Replaces the text from `start` to `end` by the view of reference number `table`, or by `text`."""

    start: int
    end: int
    table: int | None = None
    text: str = ""


def edit_names(tokens: Sequence[Token], scopes: Scopes) -> list[TextEdit]:
    """Return the edits that replace tables, and shorten names such as `prod.events.x`: a view has no namespace."""
    qualified = list(_find_qualified_columns(tokens, scopes))
    fully_named = {reference for _, _, reference in qualified}
    aliases = {
        reference: f"__pennon_{reference.number}"
        if reference in fully_named and _has_namesake(reference, scopes)
        else reference.name
        for reference in scopes.references
    }
    edits = [edit for reference in scopes.references for edit in _edit_table(reference, aliases[reference])]
    return [*edits, *(TextEdit(start, end, text=quote_name(aliases[reference])) for start, end, reference in qualified)]


def apply_edits(text: str, edits: Sequence[TextEdit], views: Mapping[int, str]) -> str:
    """Return the edited text with `{view}` in place of each table, and all other braces doubled."""
    pieces: list[str] = []
    position = 0
    for edit in sorted(edits, key=lambda edit: edit.start):
        pieces.append(_escape_braces(text[position : edit.start]))
        pieces.append(f"{{{views[edit.table]}}}" if edit.table is not None else _escape_braces(edit.text))
        position = edit.end
    return "".join([*pieces, _escape_braces(text[position:])])


def _escape_braces(text: str) -> str:
    """Return a text that `str.format` leaves as it is."""
    return text.replace("{", "{{").replace("}", "}}")


def _edit_table(reference: TableReference, alias: str) -> Iterator[TextEdit]:
    yield TextEdit(reference.start, reference.end, table=reference.number)
    if reference.alias_at is not None:
        yield TextEdit(reference.alias_at, reference.alias_at, text=f" AS {quote_name(alias)}")


def _find_qualified_columns(tokens: Sequence[Token], scopes: Scopes) -> Iterator[tuple[int, int, TableReference]]:
    """Yield the columns that are qualified with more than the last part of a table's name."""
    identifiers = index_identifiers(scopes.tree)
    tables = {reference.start for reference in scopes.references}
    for chain in find_column_chains(tokens):
        node = identifiers.get(chain[0].start)
        select = None if node is None else node.find_ancestor(exp.Select)
        if select is None or chain[0].start in tables or _is_table(node):
            continue
        # The last part is the column, unless a star follows, which is not part of the chain.
        for length in range(len(chain), 1, -1):
            if length == len(chain) and not _precedes_star(node):
                continue
            relations = scopes.find_relations(select, [token.text for token in chain[:length]])
            following = chain[length].text if length < len(chain) else None
            if relations and relations[0].reference is not None and _has_column(relations[0].reference, following):
                yield chain[0].start, chain[length - 1].end + 1, relations[0].reference
                break


def _has_column(reference: TableReference, column: str | None) -> bool:
    """Return True if a table has a column; otherwise Spark tries a shorter qualifier. A star is any column."""
    return column is None or any(fold_name(column) == fold_name(name) for name in reference.table.schema.names)


def _is_table(node: exp.Expr | None) -> bool:
    return node is not None and isinstance(node.find_ancestor(exp.Table, exp.Column, exp.Select), exp.Table)


def _precedes_star(node: exp.Expr | None) -> bool:
    column = None if node is None else node.find_ancestor(exp.Column)
    whole = None if column is None else column.find_ancestor(exp.Dot) or column
    return whole is not None and whole.find(exp.Star) is not None


def _has_namesake(reference: TableReference, scopes: Scopes) -> bool:
    select = reference.node.find_ancestor(exp.Select)
    if select is None:
        return False
    names = [one.name for one in scopes.relations(select) if one.name is not None]
    return sum(fold_name(name) == fold_name(reference.name) for name in names) > 1
