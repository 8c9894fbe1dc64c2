"""Searches and reads of a table, put together step by step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from lance_namespace import QueryTableRequest

from pennon.api.listing import format_html_table, format_value
from pennon.errors import InvalidInputError
from pennon.identifiers import Identifier, quote_identifier

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from pennon.connection import AnyNamespace
    from pennon.table.version_selector import VersionSelector

DEFAULT_NEIGHBORS = 10
"""How many rows a search returns without a limit."""
_ALL_ROWS = (1 << 53) - 1
_SHOWN_ROWS = 20


@dataclass(frozen=True)
class TableSearch:
    """Rows of a table to read. Each method returns another search, and `to_arrow()` and the like run it.

    A vector search adds the column `_distance`, a text search `_score`, and a search for both `_relevance_score`.
    """

    catalog: AnyNamespace = field(repr=False)
    identifier: Identifier
    selector: VersionSelector
    vectors: Sequence[Sequence[float]] = field(default=(), repr=False)
    text: str | None = None
    predicate: str | None = None
    columns: Sequence[str] | Mapping[str, str] | None = None
    most: int | None = None
    skipped: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    def where(self, predicate: str) -> TableSearch:
        """Return the search for rows that also meet a predicate in Lance's SQL, such as `"amount > 10"`."""
        both = predicate if self.predicate is None else f"({self.predicate}) AND ({predicate})"
        return replace(self, predicate=both)

    def select(self, columns: Sequence[str] | Mapping[str, str]) -> TableSearch:
        """Return the search with these columns only, or with columns that SQL expressions compute: a dict by name."""
        chosen = dict(columns) if hasattr(columns, "keys") else [columns] if isinstance(columns, str) else list(columns)
        return replace(self, columns=chosen)

    def limit(self, most: int) -> TableSearch:
        """Return the search for at most so many rows."""
        return replace(self, most=_require_count(most, "A limit"))

    def offset(self, skipped: int) -> TableSearch:
        """Return the search without its first rows."""
        return replace(self, skipped=_require_count(skipped, "An offset"))

    def to_batches(self) -> pa.RecordBatchReader:
        """Run the search and return a reader of its rows, which are read as they are used.

        Raises:
            TableNotFoundError, TableVersionNotFoundError, TableTagNotFoundError or TableBranchNotFoundError: It does
                not exist (any more).
            TableColumnNotFoundError: A column does not exist.
            InvalidInputError: The predicate, the vector or an option is not valid.
        """
        return self.catalog.query_batches(self._build_request())

    def to_arrow(self) -> pa.Table:
        """Run the search and return its rows as a pyarrow table. Raises the errors of `to_batches`."""
        return self.to_batches().read_all()

    def to_pandas(self) -> pd.DataFrame:
        """Run the search and return its rows as a pandas DataFrame. Raises the errors of `to_batches`."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Run the search and return its rows as a polars DataFrame. Raises the errors of `to_batches`."""
        import polars as pl

        return cast("pl.DataFrame", pl.from_arrow(self.to_arrow()))

    def to_list(self) -> list[dict[str, Any]]:
        """Run the search and return its rows as dicts. Raises the errors of `to_batches`."""
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return rows

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Run the search and return its rows as a relation of DuckDB, of a connection or of DuckDB's default one."""
        import duckdb

        return (connection or duckdb).from_arrow(self.to_arrow())

    def explain(self, *, verbose: bool = False) -> str:
        """Return the plan of the search, without running it."""
        from lance_namespace import ExplainTableQueryPlanRequest

        request = ExplainTableQueryPlanRequest(id=list(self.identifier), query=self._build_request(), verbose=verbose)
        return self.catalog.explain_table_query_plan(request)

    def __repr__(self) -> str:
        """Return what is searched, without the rows."""
        parts = [quote_identifier(self.identifier)]
        if self.vectors:
            parts.append(f"{len(self.vectors)} vector{'s' if len(self.vectors) > 1 else ''}")
        named = {
            "text": self.text,
            "where": self.predicate,
            "select": self.columns,
            "limit": self.most,
            "offset": self.skipped or None,
        }
        parts += [f"{key}={value!r}" for key, value in named.items() if value is not None]
        return f"TableSearch({', '.join(parts)})"

    def _repr_html_(self) -> str:
        shown = self if self.most is not None and self.most <= _SHOWN_ROWS else self.limit(_SHOWN_ROWS)
        return format_rows_as_html(shown.to_arrow())

    def _build_request(self) -> QueryTableRequest:
        version, branch = resolve_selector(self.catalog, self.identifier, self.selector)
        searches = bool(self.vectors) or self.text is not None
        most = self.most if self.most is not None else DEFAULT_NEIGHBORS if searches else _ALL_ROWS
        content = {
            "id": list(self.identifier),
            "version": version,
            "branch": branch,
            "k": most,
            "offset": self.skipped or None,
            "filter": self.predicate,
            "prefilter": True if self.predicate is not None else None,
            "vector": _build_vector(self.vectors),
            "full_text_query": self._build_text_query(),
            "columns": self._build_columns(),
            **{key: value for key, value in self.options.items() if key != "text_columns"},
        }
        return QueryTableRequest.model_validate({key: value for key, value in content.items() if value is not None})

    def _build_text_query(self) -> dict[str, Any] | None:
        if self.text is None:
            return None
        columns = self.options.get("text_columns")
        query = {"query": self.text} if columns is None else {"query": self.text, "columns": list(columns)}
        return {"string_query": query}

    def _build_columns(self) -> dict[str, Any] | None:
        if self.columns is None:
            return None
        if hasattr(self.columns, "keys"):
            return {"column_aliases": dict(cast("Mapping[str, str]", self.columns))}
        return {"column_names": list(self.columns)}


def parse_vectors(query: Any) -> list[list[float]]:
    """Return the vectors of a list, a numpy or pyarrow array, or of a list of them. Raises InvalidInputError."""
    for convert in ("to_pylist", "tolist", "to_list"):
        if hasattr(query, convert):
            query = getattr(query, convert)()
            break
    try:
        items = list(query)
        nested = bool(items) and not isinstance(items[0], (int, float)) and hasattr(items[0], "__len__")
        vectors = [list(one) for one in items] if nested else [items]
        found = [[float(number) for number in vector] for vector in vectors]
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"A vector is a sequence of numbers, got {type(query).__name__}: {error}") from error
    if not found or not all(found):
        raise InvalidInputError("A vector to search for is empty")
    return found


def resolve_selector(
    catalog: AnyNamespace, identifier: Identifier, selector: VersionSelector
) -> tuple[int | None, str | None]:
    """Return the version and branch of a selector, in which a request names them. A tag is looked up."""
    if selector.tag is None:
        return selector.version, selector.branch
    from lance_namespace import GetTableTagVersionRequest

    found = catalog.get_table_tag_version(GetTableTagVersionRequest(id=list(identifier), tag=selector.tag))
    return found.version, found.branch


def format_rows_as_html(rows: pa.Table) -> str:
    """Return rows as an HTML table."""
    values = [[format_value(column[index].as_py()) for column in rows.columns] for index in range(rows.num_rows)]
    return format_html_table(rows.column_names, values)


def _build_vector(vectors: Sequence[Sequence[float]]) -> dict[str, Any]:
    if not vectors:
        return {}
    return {"single_vector": list(vectors[0])} if len(vectors) == 1 else {"multi_vector": [list(v) for v in vectors]}


def _require_count(number: int, what: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise InvalidInputError(f"{what} is a number of rows, got {number!r}")
    return number
