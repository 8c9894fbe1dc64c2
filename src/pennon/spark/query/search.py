"""Vector and full-text search as table functions.

    SELECT id, _distance FROM vector_search('prod.docs', 'embedding', array(0.1, 0.2), k => 10, where => 'year > 2020')
    SELECT id, _score FROM text_search('prod.docs', 'lance tables', columns => array('title', 'body'), k => 10)

A call is a table of the best rows. Lance finds them when the statement runs, with an index if there is one. The
surrounding query sees only these rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from pennon.errors import InvalidInputError, TableColumnNotFoundError
from pennon.identifiers import Identifier, format_identifier, parse_identifier, table_identifier
from pennon.spark import types
from pennon.spark.reading.pinned import VersionOptions, pin
from pennon.spark.tokens import TokenCursor
from pennon.table.requirements import require_bounded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from pennon.spark.lake import Lake

_DISTANCE = pa.field("_distance", pa.float32())
_SCORE = pa.field("_score", pa.float32())
_PREFIX = "__pennon_search_"
_DEFAULT_K = 10
_VERSION_ARGUMENTS = {"version": int, "tag": str, "branch": str, "as_of": str}
_VECTOR_OPTIONS: dict[str, Any] = {
    "metric": str,
    "nprobes": int,
    "minimum_nprobes": int,
    "maximum_nprobes": int,
    "refine_factor": int,
    "ef": int,
    "use_index": bool,
}
FUNCTIONS = {
    "VECTOR_SEARCH": ("table", "column", "query", "k", "where"),
    "TEXT_SEARCH": ("table", "query", "k", "where"),
}
"""The functions, with the names of positional arguments in their order."""


@dataclass(frozen=True)
class SearchCall:
    """A call of a search function. `name` is the table that replaces the call in the query."""

    name: str
    function: str
    arguments: dict[str, Any]

    def open(self, lake: Lake) -> TableSearch:
        """Return the search on its table.

        Raises InvalidInputError for invalid arguments, TableNotFoundError and TableColumnNotFoundError for a missing
        table or column.
        """
        arguments = dict(self.arguments)
        table = table_identifier(_parse_table(lake, _require_text(self, arguments.pop("table", None), "table")))
        selector = VersionOptions(
            **{
                key: _require_type(self, key, arguments.pop(key), kind)
                for key, kind in _VERSION_ARGUMENTS.items()
                if key in arguments
            }
        )
        _, dataset = pin(lake.address, table, selector)
        k = _require_type(self, "k", arguments.pop("k", _DEFAULT_K), int)
        if k < 1:
            raise InvalidInputError(f"{self.function.lower()} needs k to be at least 1, got {k}")
        where = arguments.pop("where", None)
        search = TableSearch(table, dataset, _DISTANCE, {"prefilter": True})
        if where is not None:
            search.options["filter"] = _require_text(self, where, "where")
            require_bounded(table, search.options["filter"])
        if self.function == "VECTOR_SEARCH":
            nearest = {"column": _require_text(self, arguments.pop("column", None), "column"), "k": k}
            nearest["q"] = _require_vector(self, arguments.pop("query", None))
            for key in [key for key in arguments if key in _VECTOR_OPTIONS]:
                nearest[key] = _require_type(self, key, arguments.pop(key), _VECTOR_OPTIONS[key])
            _require_columns(table, dataset.schema, [nearest["column"]])
            search.options["nearest"] = nearest
        else:
            search = replace(search, score=_SCORE)
            search.options.update(full_text_query=_build_text_query(self, arguments, table, dataset.schema), limit=k)
        if arguments:
            raise InvalidInputError(f"{self.function.lower()} has no argument {min(arguments)!r}")
        return search


@dataclass(frozen=True)
class TableSearch:
    """A search with checked arguments."""

    table: Identifier
    dataset: Any
    score: pa.Field
    options: dict[str, Any]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table, and the distance or score of each row."""
        return self.dataset.schema.append(self.score)

    def to_dataframe(self, lake: Lake, columns: Sequence[str] | None) -> DataFrame:
        """Return the rows that the search finds, best first."""
        names = self.schema.names if columns is None else list(columns)
        projected = pa.schema([self.schema.field(name) for name in names])
        read_columns = names if self.score.name in names else [*names, self.score.name]
        try:
            rows = self.dataset.scanner(columns=read_columns, **self.options).to_table()
        except (ValueError, OSError, TypeError, KeyError) as error:
            raise InvalidInputError(f"Table {format_identifier(self.table)} cannot be searched: {error}") from error
        target = types.read_schema(projected)
        batches = [types.to_spark(batch, target) for batch in rows.select(names).to_batches()]
        return lake.spark.createDataFrame(pa.Table.from_batches(batches, target), types.spark_schema(projected))


def replace_calls(text: str, tokens: list[Token], evaluate: Callable[[str], Any]) -> tuple[str, dict[str, SearchCall]]:
    """Return the query with table names in place of calls, and the calls. `evaluate` computes an argument."""
    pieces: list[str] = []
    calls: dict[str, SearchCall] = {}
    at = 0
    cursor = TokenCursor(text, tokens)
    while not cursor.at_end:
        token = tokens[cursor.position]
        if token.text.upper() not in FUNCTIONS or not _is_relation(tokens, cursor.position):
            cursor.position += 1
            continue
        cursor.position += 1
        call = SearchCall(
            f"{_PREFIX}{len(calls)}", token.text.upper(), _parse_arguments(cursor, token.text.upper(), evaluate)
        )
        calls[call.name] = call
        pieces += [text[at : token.start], call.name]
        at = tokens[cursor.position - 1].end + 1
    return ("".join([*pieces, text[at:]]) if calls else text), calls


def _is_relation(tokens: Sequence[Token], at: int) -> bool:
    """Return True if a function is called where a table can be named."""
    if at + 1 >= len(tokens) or tokens[at + 1].token_type is not TokenType.L_PAREN or not at:
        return False
    return tokens[at - 1].text.upper() in {"FROM", "JOIN", ",", "LATERAL", "("}


def _parse_arguments(cursor: TokenCursor, function: str, evaluate: Callable[[str], Any]) -> dict[str, Any]:
    cursor.expect("(")
    arguments: dict[str, Any] = {}
    positional = list(FUNCTIONS[function])
    while not cursor.accept(")"):
        if arguments:
            cursor.expect(",")
        if cursor.position + 1 < len(cursor.tokens) and cursor.tokens[cursor.position + 1].text == "=>":
            name = cursor.parse_part().lower()
            cursor.expect("=>")
            positional = []
        elif positional:
            name = positional.pop(0)
        else:
            raise cursor.syntax_error(f"{function.lower()} needs this argument by name: name => value")
        if name in arguments:
            raise cursor.syntax_error(f"{function.lower()} has the argument {name} twice")
        arguments[name] = _evaluate_argument(cursor.take_until(","), evaluate)
    return arguments


def _evaluate_argument(text: str, evaluate: Callable[[str], Any]) -> Any:
    """Return the value of an argument. Spark evaluates everything but simple constants."""
    try:
        node = sqlglot.parse_one(text, dialect="spark")
    except SqlglotError:
        return evaluate(text)
    if "\\" not in text:
        value = _parse_constant(node)
        if value is not None:
            return value
    return evaluate(text)


def _parse_constant(node: exp.Expr) -> Any:
    if isinstance(node, exp.Literal):
        if node.is_string:
            return node.name
        return int(node.name) if node.name.isdigit() else float(node.name)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg):
        inner = _parse_constant(node.this)
        return -inner if isinstance(inner, (int, float)) else None
    if isinstance(node, exp.Array):
        items = [_parse_constant(one) for one in node.expressions]
        return None if any(one is None for one in items) else items
    return None


def _parse_table(lake: Lake, text: str) -> Identifier:
    identifier = parse_identifier(text)
    return identifier[1:] if len(identifier) > 1 and identifier[0] == lake.name else identifier


def _require_text(call: SearchCall, value: object, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidInputError(f"{call.function.lower()} needs a string for {name}, got {value!r}")
    return value


def _require_type(call: SearchCall, name: str, value: object, kind: type) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidInputError(f"{call.function.lower()}: {name} must be of type {kind.__name__}, got {value!r}")
    return value


def _require_vector(call: SearchCall, value: object) -> list[float]:
    if not isinstance(value, (list, tuple)) or not value or not all(isinstance(one, (int, float)) for one in value):
        raise InvalidInputError(f"{call.function.lower()} needs an array of numbers for query, got {value!r}")
    return [float(one) for one in value]


def _build_text_query(call: SearchCall, arguments: dict[str, Any], table: Identifier, schema: pa.Schema) -> Any:
    words = _require_text(call, arguments.pop("query", None), "query")
    columns = arguments.pop("columns", None)
    if columns is None:
        return words
    names = [columns] if isinstance(columns, str) else list(columns)
    _require_columns(table, schema, names)
    return {"query": words, "columns": names}


def _require_columns(table: Identifier, schema: pa.Schema, names: Sequence[str]) -> None:
    for name in names:
        if name not in schema.names:
            raise TableColumnNotFoundError(
                f"Table {format_identifier(table)} has no column {name!r} to search; it has {', '.join(schema.names)}"
            )
