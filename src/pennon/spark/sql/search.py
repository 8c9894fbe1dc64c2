"""Vector and full-text search as table functions.

    SELECT id, _distance FROM vector_search('prod.docs', 'embedding', array(0.1, 0.2), k => 10, where => 'year > 2020')
    SELECT id, _score FROM text_search('prod.docs', 'lance tables', columns => array('title', 'body'), k => 10)

A call stands for a table of its best rows. Lance finds them, by an index where there is one, when the statement is run;
the query around the call works on these rows.
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
from pennon.spark.reading.pinned import VersionSelector, pin
from pennon.spark.sql.cursor import TokenCursor
from pennon.table.requirements import require_bounded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from pennon.spark.lake import Lake

_DISTANCE = pa.field("_distance", pa.float32())
_SCORE = pa.field("_score", pa.float32())
_PREFIX = "__pennon_search_"
_DEFAULT_K = 10
_MOMENTS = {"version": int, "tag": str, "branch": str, "as_of": str}
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
    """A search as a query asks for it: `name` is the table that stands for it, `given` the arguments."""

    name: str
    function: str
    given: dict[str, Any]

    def open(self, lake: Lake) -> TableSearch:
        """Find the table, and refuse (13) what makes no sense."""
        given = dict(self.given)
        table = table_identifier(_identifier(lake, _text(self, given.pop("table", None), "table")))
        moment = VersionSelector(
            **{key: _typed(self, key, given.pop(key), kind) for key, kind in _MOMENTS.items() if key in given}
        )
        _, dataset = pin(lake.address, table, moment)
        k = _typed(self, "k", given.pop("k", _DEFAULT_K), int)
        if k < 1:
            raise InvalidInputError(f"{self.function.lower()} gives at least one row: k is {k}")
        where = given.pop("where", None)
        search = TableSearch(table, dataset, _DISTANCE, {"prefilter": True})
        if where is not None:
            search.options["filter"] = _text(self, where, "where")
            require_bounded(table, search.options["filter"])
        if self.function == "VECTOR_SEARCH":
            nearest = {"column": _text(self, given.pop("column", None), "column"), "k": k}
            nearest["q"] = _vector(self, given.pop("query", None))
            for key in [key for key in given if key in _VECTOR_OPTIONS]:
                nearest[key] = _typed(self, key, given.pop(key), _VECTOR_OPTIONS[key])
            _require(table, dataset.schema, [nearest["column"]])
            search.options["nearest"] = nearest
        else:
            search = replace(search, score=_SCORE)
            search.options.update(full_text_query=_words(self, given, table, dataset.schema), limit=k)
        if given:
            raise InvalidInputError(f"{self.function.lower()} has no argument {min(given)!r}")
        return search


@dataclass(frozen=True)
class TableSearch:
    """A search that can be run."""

    table: Identifier
    dataset: Any
    score: pa.Field
    options: dict[str, Any]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table, and how near each row is."""
        return self.dataset.schema.append(self.score)

    def frame(self, lake: Lake, columns: Sequence[str] | None) -> DataFrame:
        """Give the rows that were found, the best first."""
        names = self.schema.names if columns is None else list(columns)
        projected = pa.schema([self.schema.field(name) for name in names])
        read = names if self.score.name in names else [*names, self.score.name]
        try:
            found = self.dataset.scanner(columns=read, **self.options).to_table()
        except (ValueError, OSError, TypeError, KeyError) as error:
            raise InvalidInputError(f"Table {format_identifier(self.table)} cannot be searched so: {error}") from error
        target = types.read_schema(projected)
        batches = [types.to_spark(batch, target) for batch in found.select(names).to_batches()]
        return lake.spark.createDataFrame(pa.Table.from_batches(batches, target), types.spark_schema(projected))


def replace_calls(text: str, tokens: list[Token], evaluate: Callable[[str], Any]) -> tuple[str, dict[str, SearchCall]]:
    """Put names of tables in the place of calls in a query; `evaluate` lets Spark compute an argument."""
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
            f"{_PREFIX}{len(calls)}", token.text.upper(), _arguments(cursor, token.text.upper(), evaluate)
        )
        calls[call.name] = call
        pieces += [text[at : token.start], call.name]
        at = tokens[cursor.position - 1].end + 1
    return ("".join([*pieces, text[at:]]) if calls else text), calls


def _is_relation(tokens: Sequence[Token], at: int) -> bool:
    """Tell whether a function is called where a table can stand."""
    if at + 1 >= len(tokens) or tokens[at + 1].token_type is not TokenType.L_PAREN or not at:
        return False
    return tokens[at - 1].text.upper() in {"FROM", "JOIN", ",", "LATERAL", "("}


def _arguments(cursor: TokenCursor, function: str, evaluate: Callable[[str], Any]) -> dict[str, Any]:
    cursor.expect("(")
    found: dict[str, Any] = {}
    places = list(FUNCTIONS[function])
    while not cursor.accept(")"):
        if found:
            cursor.expect(",")
        if cursor.position + 1 < len(cursor.tokens) and cursor.tokens[cursor.position + 1].text == "=>":
            name = cursor.parse_part().lower()
            cursor.expect("=>")
            places = []
        elif places:
            name = places.pop(0)
        else:
            raise cursor.syntax_error(f"{function.lower()} takes this argument by name, as name => value")
        if name in found:
            raise cursor.syntax_error(f"{function.lower()} gets {name} twice")
        found[name] = _value(cursor.take_until(","), evaluate)
    return found


def _value(text: str, evaluate: Callable[[str], Any]) -> Any:
    """Read an argument: a plain constant here, anything else by Spark."""
    try:
        node = sqlglot.parse_one(text, dialect="spark")
    except SqlglotError:
        return evaluate(text)
    if "\\" not in text:
        found = _constant(node)
        if found is not None:
            return found
    return evaluate(text)


def _constant(node: exp.Expr) -> Any:
    if isinstance(node, exp.Literal):
        if node.is_string:
            return node.name
        return int(node.name) if node.name.isdigit() else float(node.name)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg):
        inner = _constant(node.this)
        return -inner if isinstance(inner, (int, float)) else None
    if isinstance(node, exp.Array):
        items = [_constant(one) for one in node.expressions]
        return None if any(one is None for one in items) else items
    return None


def _identifier(lake: Lake, text: str) -> Identifier:
    identifier = parse_identifier(text)
    return identifier[1:] if len(identifier) > 1 and identifier[0] == lake.name else identifier


def _text(call: SearchCall, value: object, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidInputError(f"{call.function.lower()} needs a text for {name}, got {value!r}")
    return value


def _typed(call: SearchCall, name: str, value: object, kind: type) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidInputError(f"{call.function.lower()}: {name} is {kind.__name__}, got {value!r}")
    return value


def _vector(call: SearchCall, value: object) -> list[float]:
    if not isinstance(value, (list, tuple)) or not value or not all(isinstance(one, (int, float)) for one in value):
        raise InvalidInputError(f"{call.function.lower()} needs an array of numbers for query, got {value!r}")
    return [float(one) for one in value]


def _words(call: SearchCall, given: dict[str, Any], table: Identifier, schema: pa.Schema) -> Any:
    words = _text(call, given.pop("query", None), "query")
    columns = given.pop("columns", None)
    if columns is None:
        return words
    names = [columns] if isinstance(columns, str) else list(columns)
    _require(table, schema, names)
    return {"query": words, "columns": names}


def _require(table: Identifier, schema: pa.Schema, names: Sequence[str]) -> None:
    for name in names:
        if name not in schema.names:
            raise TableColumnNotFoundError(
                f"Table {format_identifier(table)} has no column {name!r} to search; it has {', '.join(schema.names)}"
            )
