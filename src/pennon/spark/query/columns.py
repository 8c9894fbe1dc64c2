"""Find the columns of each table that a query needs.

A column is needed if its name occurs anywhere in the query where it could refer to this table, or if a star includes it
that no outer query narrows. Names come from the tokens, so nothing that the parser drops is missed. The syntax tree
only excludes tables that a name cannot refer to. At worst, too much is read: no name changes its meaning because a
column was left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import Token, TokenType, exp

from pennon.spark.query.references import TableReference, find_name_chains, fold_name
from pennon.spark.query.stars import find_fully_read_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pennon.spark.query.scopes import Relation, Scopes

_LITERAL_TYPES = {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "INTERVAL", "X"}
_VARIABLE_WIDTH = 1 << 20


def find_needed_columns(
    text: str, tokens: Sequence[Token], scopes: Scopes
) -> dict[TableReference, tuple[str, ...] | None]:
    """Return the columns that each reference must be read with, in the table's order; None means all."""
    fully_read = find_fully_read_tables(scopes)
    mentions: dict[TableReference, set[str]] = {reference: set() for reference in scopes.references}
    for names, targets in _find_mentions(text, tokens, scopes):
        for target in targets:
            mentions[target].update(names)
    return {
        reference: None if reference in fully_read else _choose_columns(reference.table.schema, mentions[reference])
        for reference in scopes.references
    }


def _choose_columns(schema: pa.Schema, names: Iterable[str]) -> tuple[str, ...] | None:
    """Return the columns with these names, or None for all columns.

    If no column is needed, the narrowest one is read, because its values still count the rows.
    """
    needed = set(names)
    columns = tuple(name for name in schema.names if fold_name(name) in needed)
    if len(columns) == len(schema.names):
        return None
    if columns or not schema.names:
        return columns
    return (min(schema, key=lambda field: _width(field.type)).name,)


def index_identifiers(tree: exp.Expr) -> dict[int, exp.Identifier]:
    """Return the identifiers of a syntax tree by their start in the text."""
    return {one.meta["start"]: one for one in tree.find_all(exp.Identifier) if "start" in one.meta}


def find_column_chains(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield each name in a query that may be a column's, as the tokens of its parts, without a star at the end."""
    for first, last in find_name_chains(tokens):
        chain = list(tokens[first : last + 1 : 2])
        if not _is_not_column(chain, tokens[last + 1] if last + 1 < len(tokens) else None):
            yield chain


def _find_mentions(
    text: str, tokens: Sequence[Token], scopes: Scopes
) -> Iterator[tuple[set[str], Iterable[TableReference]]]:
    """Yield names, each with the tables in which it makes columns needed."""
    identifiers = index_identifiers(scopes.tree)
    for chain in find_column_chains(tokens):
        node = identifiers.get(chain[0].start)
        if node is not None and _is_definition(node):
            continue
        names = [fold_name(token.text) for token in chain]
        select = None if node is None else node.find_ancestor(exp.Select)
        if select is None:
            yield set(names), scopes.references
            continue
        others = set(names)
        for length in range(1, len(chain)):
            relations = scopes.find_relations(select, [token.text for token in chain[:length]])
            for relation in relations:
                yield {names[length]}, scopes.tables_of(relation)
            if relations:
                # A qualifier may also be a struct column, but only if the relation lacks the column after it.
                others = set() if _has_column(relations[0], names[length]) else others & {names[0]}
        yield others, scopes.visible_tables(select)
    for token in tokens:
        # Spark has a setting that makes these identifiers.
        if token.token_type is TokenType.STRING and text[token.start : token.start + 1] == '"':
            yield {fold_name(token.text)}, scopes.references


def _has_column(relation: Relation, name: str) -> bool:
    reference = relation.reference
    return reference is not None and any(fold_name(one) == name for one in reference.table.schema.names)


def _is_not_column(chain: Sequence[Token], following: Token | None) -> bool:
    """Return True for the name of a function, or of the type of a literal."""
    if following is None or len(chain) != 1:
        return False
    if following.token_type is TokenType.L_PAREN:
        return True
    return following.token_type is TokenType.STRING and chain[0].text.upper() in _LITERAL_TYPES


def _is_definition(node: exp.Identifier) -> bool:
    """Return True if a name defines an alias or names a table, rather than a column."""
    parent = node.parent
    if isinstance(parent, exp.Alias):
        return node.arg_key == "alias"
    while isinstance(parent, exp.Dot) and parent.parent is not None:
        parent = parent.parent
    return isinstance(parent, (exp.TableAlias, exp.Table))


def _width(kind: pa.DataType) -> int:
    try:
        return int(kind.bit_width)
    except ValueError:
        return _VARIABLE_WIDTH + (kind.num_fields if pa.types.is_nested(kind) else 0)
