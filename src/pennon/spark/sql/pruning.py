"""Which columns of each table a query needs.

A column is needed if its name stands anywhere in the query where it could mean this table, or if a star needs it that
nothing narrows down. Names are taken from the tokens, so nothing that the parser may leave out is missed; the parsed
query only tells which tables a name cannot mean. Too much is read at worst: no name ever changes its meaning because
the column that it meant is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import Token, TokenType, exp

from pennon.spark.sql.cursor import is_word
from pennon.spark.sql.references import TableReference, fold_name
from pennon.spark.sql.stars import find_fully_read_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pennon.spark.sql.scopes import Relation, Scopes

_LITERAL_TYPES = {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "INTERVAL", "X"}
_NEVER_NARROW = 1 << 20


def find_needed_columns(
    text: str, tokens: Sequence[Token], scopes: Scopes
) -> dict[TableReference, tuple[str, ...] | None]:
    """Give the columns that each reference must be read with, in the table's order; None for all."""
    whole = find_fully_read_tables(scopes)
    mentions: dict[TableReference, set[str]] = {reference: set() for reference in scopes.references}
    for names, targets in _mentions(text, tokens, scopes):
        for target in targets:
            mentions[target].update(names)
    return {
        reference: None if reference in whole else choose_columns(reference.table.schema, mentions[reference])
        for reference in scopes.references
    }


def choose_columns(schema: pa.Schema, names: Iterable[str]) -> tuple[str, ...] | None:
    """Give the columns with these names; if there are none, the smallest one, which tells how many rows there are."""
    wanted = set(names)
    found = tuple(name for name in schema.names if fold_name(name) in wanted)
    if len(found) == len(schema.names):
        return None
    if found or not schema.names:
        return found
    return (min(schema, key=lambda field: _width(field.type)).name,)


def index_identifiers(tree: exp.Expr) -> dict[int, exp.Identifier]:
    """Give the identifiers of a parsed query by the place in the text where they start."""
    return {one.meta["start"]: one for one in tree.find_all(exp.Identifier) if "start" in one.meta}


def find_name_chains(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Give the names in a query, each as the tokens of its parts; a star at the end is left away."""
    number = 0
    while number < len(tokens):
        if not is_word(tokens[number]):
            number += 1
            continue
        chain = [tokens[number]]
        while number + 2 < len(tokens) and tokens[number + 1].token_type is TokenType.DOT:
            if not is_word(tokens[number + 2]):
                break
            chain.append(tokens[number + 2])
            number += 2
        number += 1
        following = tokens[number] if number < len(tokens) else None
        if not _is_no_column(chain, following):
            yield chain


def _mentions(
    text: str, tokens: Sequence[Token], scopes: Scopes
) -> Iterator[tuple[set[str], Iterable[TableReference]]]:
    """Give names with the tables in which they keep columns alive."""
    places = index_identifiers(scopes.tree)
    for chain in find_name_chains(tokens):
        node = places.get(chain[0].start)
        if node is not None and _defines(node):
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
                # A qualifier may be a column of structs as well, but only where the relation has no such column.
                others = set() if _has_column(relations[0], names[length]) else others & {names[0]}
        yield others, scopes.visible_tables(select)
    for token in tokens:
        # Spark can be told to take these for identifiers.
        if token.token_type is TokenType.STRING and text[token.start : token.start + 1] == '"':
            yield {fold_name(token.text)}, scopes.references


def _has_column(relation: Relation, name: str) -> bool:
    reference = relation.reference
    return reference is not None and any(fold_name(one) == name for one in reference.table.schema.names)


def _is_no_column(chain: Sequence[Token], following: Token | None) -> bool:
    """Tell the names of functions and of types of literals."""
    if following is None or len(chain) != 1:
        return False
    if following.token_type is TokenType.L_PAREN:
        return True
    return following.token_type is TokenType.STRING and chain[0].text.upper() in _LITERAL_TYPES


def _defines(node: exp.Identifier) -> bool:
    """Tell whether a name is given here, or is a table's, rather than a column's."""
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
        return _NEVER_NARROW + (kind.num_fields if pa.types.is_nested(kind) else 0)
