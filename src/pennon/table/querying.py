"""Queries: filters, vector search, full-text search, and both together.

A request becomes the arguments of a Lance scanner, or of two scanners for a hybrid query. `k` is the number of rows to
return after skipping `offset` rows.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.errors import InvalidInputError
from pennon.identifiers import Identifier, format_identifier
from pennon.table.blobs import has_blobs
from pennon.table.full_text import parse_full_text
from pennon.table.lance_errors import translate_row_errors
from pennon.table.requirements import require_complete, require_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lance import LanceDataset
    from lance.dataset import LanceScanner
    from lance_namespace import AnalyzeTableQueryPlanRequest, QueryTableRequest

    QueryRequest = QueryTableRequest | AnalyzeTableQueryPlanRequest

_DISTANCE, _SCORE, _RELEVANCE = "_distance", "_score", "_relevance_score"
_ROW_ID, _QUERY_INDEX = "_rowid", "query_index"
_FUSION_CONSTANT = 60
"""The constant of reciprocal rank fusion, with the value that its authors and LanceDB use."""
_DEFAULT_VECTOR = "vector"
_DISTANCES = ("l2", "euclidean", "cosine", "dot", "hamming")
_READ_AHEAD_BYTES = 64 << 20
"""How far Lance may read ahead. Its default is 2 GB."""
_FEW_ROWS, _MOST_ROWS = 64, 8192
_BATCH_BYTES = 1 << 20
"""How much of a data file goes into a batch. In memory, it may be several times as large."""
_SAMPLED_FRAGMENTS = 16
_SMALL_ROWS, _SMALL_BYTES = 10_000, 1 << 20
"""A table of this size is read in one step. Lance reads the other columns only of rows that meet the filter, which
takes longer than to read them all."""


@dataclass(frozen=True)
class Query:
    """A query of an open table, as a request defines it."""

    identifier: Identifier
    columns: list[str] | dict[str, str] | None
    limit: int
    offset: int
    options: Mapping[str, Any]
    """The filter and other arguments for every scanner of the query."""
    nearest: dict[str, Any] = field(default_factory=dict)
    is_batch: bool = False
    """True for several vectors, each with a result of its own."""
    text: Any = None

    @property
    def is_hybrid(self) -> bool:
        """True if it searches for both a vector and a text."""
        return bool(self.nearest) and self.text is not None


def parse_query(dataset: LanceDataset, identifier: Identifier, request: QueryRequest) -> Query:
    """Return the query of a request. Raises TableColumnNotFoundError and InvalidInputError."""
    columns = _parse_columns(dataset, identifier, request)
    require_complete(identifier, request.filter, *(columns.values() if isinstance(columns, dict) else ()))
    limit, offset = request.k, request.offset or 0
    with translate_row_errors("reading a full-text query", identifier):
        text = parse_full_text(dataset, identifier, request.full_text_query)
    if text is not None or request.vector.single_vector or request.vector.multi_vector:
        # Lance allocates memory for all rows that a search may return, and ends the process if it cannot.
        rows = max(dataset.count_rows(), 1)
        limit, offset = min(limit, rows), min(offset, rows)
    nearest, is_batch = _parse_vector(dataset, identifier, request, limit + offset)
    searches = text is not None or bool(nearest)
    query = Query(
        identifier,
        columns,
        limit,
        offset,
        {
            "late_materialization": False if request.filter and not searches and _is_small(dataset) else None,
            "filter": request.filter,
            "prefilter": bool(request.prefilter),
            "fast_search": request.fast_search or None,
            "with_row_id": request.with_row_id or None,
            "io_buffer_size": _READ_AHEAD_BYTES,
            "batch_size": _choose_batch_size(dataset, request.k),
            "blob_handling": "all_binary",  # positions of blobs in Lance's files are of no use to callers
        },
        nearest,
        is_batch,
        text,
    )
    if query.is_hybrid and is_batch:
        raise InvalidInputError(f"A hybrid query of table {format_identifier(identifier)} has one vector, not several")
    return query


def run_query(dataset: LanceDataset, query: Query) -> pa.RecordBatchReader:
    """Return the rows of a query as a stream, which reads them on demand.

    Raises TableColumnNotFoundError and InvalidInputError, now or while the stream is read.
    """
    with translate_row_errors("querying", query.identifier):
        if query.is_hybrid:
            return _run_hybrid(dataset, query).to_reader()
        if query.limit == 0 and query.nearest:
            return _build_scanner(dataset, query).projected_schema.empty_table().to_reader()
        if query.is_batch and query.offset:
            return _skip_best(_build_scanner(dataset, query).to_table(), query.offset).to_reader()
        reader = _build_scanner(dataset, query).to_reader()
    return pa.RecordBatchReader.from_batches(reader.schema, _read_batches(reader, query))


def count_rows(dataset: LanceDataset, identifier: Identifier, predicate: str | None) -> int:
    """Return the number of rows that meet a predicate, or of all rows. Raises InvalidInputError for the predicate."""
    require_complete(identifier, predicate)
    with translate_row_errors(f"counting {predicate!r}", identifier):
        return int(dataset.count_rows(predicate))


def explain_query(dataset: LanceDataset, query: Query, *, verbose: bool) -> str:
    """Return the plan of a query, or both plans of a hybrid query."""
    return _format_plans(dataset, query, lambda scanner: scanner.explain_plan(verbose))


def analyze_query(dataset: LanceDataset, query: Query) -> str:
    """Run a query and return its plan with the cost of each step."""
    return _format_plans(dataset, query, lambda scanner: scanner.analyze_plan())


def _choose_batch_size(dataset: LanceDataset, most: int) -> int | None:
    """Return how many rows to read at once. Lance holds several batches, and limits them by rows, not by size."""
    if most <= _FEW_ROWS:
        return None
    if any(has_blobs(column) for column in dataset.schema):
        return _FEW_ROWS
    some = [fragment.metadata for fragment in islice(dataset.get_fragments(), _SAMPLED_FRAGMENTS)]
    rows = sum(one.physical_rows for one in some)
    stored = sum(file.file_size_bytes or 0 for one in some for file in one.files)
    return min(max(_BATCH_BYTES * rows // max(stored, 1), 1), _MOST_ROWS)


def _is_small(dataset: LanceDataset) -> bool:
    """Return True if the data of a table is small, as far as its manifest tells."""
    if dataset.count_rows() > _SMALL_ROWS:
        return False
    fragments = dataset.get_fragments()
    if len(fragments) > _SAMPLED_FRAGMENTS:
        return False
    sizes = [file.file_size_bytes for fragment in fragments for file in fragment.metadata.files]
    return None not in sizes and sum(filter(None, sizes)) <= _SMALL_BYTES


def _format_plans(dataset: LanceDataset, query: Query, format_plan: Callable[[LanceScanner], str]) -> str:
    with translate_row_errors("planning a query", query.identifier):
        if not query.is_hybrid:
            return format_plan(_build_scanner(dataset, query))
        vector, text = (format_plan(one) for one in _build_hybrid_scanners(dataset, query))
        return f"Vector search:\n{vector}\nFull-text search:\n{text}"


def _build_scanner(dataset: LanceDataset, query: Query) -> LanceScanner:
    if query.nearest:
        # With several vectors, each has its own limit, which is in `nearest`.
        limits: dict[str, Any] = {} if query.is_batch else {"limit": query.limit, "offset": query.offset}
        nearest = {**query.nearest, "k": max(query.nearest["k"], 1)}
        return dataset.scanner(
            _add_score(query.columns, _DISTANCE), nearest=nearest, **limits, **_search_options(query)
        )
    found: dict[str, Any] = {"limit": query.limit, "offset": query.offset or None}
    if query.text is not None:
        return dataset.scanner(
            _add_score(query.columns, _SCORE), full_text_query=query.text, **found, **_search_options(query)
        )
    return dataset.scanner(query.columns, **found, **query.options)


def _search_options(query: Query) -> dict[str, Any]:
    return {**query.options, "disable_scoring_autoprojection": query.columns is not None or None}


def _add_score(columns: list[str] | dict[str, str] | None, score: str) -> list[str] | dict[str, str] | None:
    """Return the columns with the score, which every search returns."""
    if columns is None or score in columns:
        return columns
    return [*columns, score] if isinstance(columns, list) else {**columns, score: score}


def _read_batches(reader: pa.RecordBatchReader, query: Query) -> Iterator[pa.RecordBatch]:
    while True:
        with translate_row_errors("querying", query.identifier):
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
        yield batch


def _build_hybrid_scanners(dataset: LanceDataset, query: Query) -> tuple[LanceScanner, LanceScanner]:
    """Return the two scanners of a hybrid query, each with as many rows as may be in the result."""
    most = max(query.limit + query.offset, 1)
    options = {**_search_options(query), "with_row_id": True}
    vector = dataset.scanner(
        _add_score(query.columns, _DISTANCE), nearest={**query.nearest, "k": most}, limit=most, **options
    )
    text = dataset.scanner(_add_score(query.columns, _SCORE), full_text_query=query.text, limit=most, **options)
    return vector, text


def _run_hybrid(dataset: LanceDataset, query: Query) -> pa.Table:
    vector, text = (one.to_table() for one in _build_hybrid_scanners(dataset, query))
    fused = _fuse_rankings(vector, text).slice(query.offset, query.limit)
    asked_for = query.options["with_row_id"] or _ROW_ID in (query.columns or ())
    return fused if asked_for else fused.drop_columns([_ROW_ID])


def _fuse_rankings(vector: pa.Table, text: pa.Table) -> pa.Table:
    """Return the rows of two searches, ranked by reciprocal rank fusion. A row in both counts twice.

    A row that only one of the searches returned has a null distance or score.
    """
    points: dict[int, float] = defaultdict(float)
    for ranking in (vector, text):
        for rank, row in enumerate(ranking[_ROW_ID].to_pylist()):
            points[row] += 1 / (rank + 1 + _FUSION_CONSTANT)
    scores = dict(zip(text[_ROW_ID].to_pylist(), text[_SCORE].to_pylist(), strict=True))
    distances = dict(zip(vector[_ROW_ID].to_pylist(), vector[_DISTANCE].to_pylist(), strict=True))
    plain = [name for name in vector.column_names if name != _DISTANCE]
    rows = pa.concat_tables([vector.select(plain), text.select(plain)])
    positions = {row: number for number, row in reversed(list(enumerate(rows[_ROW_ID].to_pylist())))}
    ranked = sorted(points, key=lambda row: (-points[row], row))
    fused = rows.take(pa.array([positions[row] for row in ranked], pa.int64()))
    for name, values in ((_DISTANCE, distances), (_SCORE, scores), (_RELEVANCE, points)):
        fused = fused.append_column(name, pa.array([values.get(row) for row in ranked], pa.float32()))
    return fused


def _skip_best(rows: pa.Table, offset: int) -> pa.Table:
    """Return the rows without the best `offset` rows of each of several vectors."""
    rank: dict[int, int] = defaultdict(int)
    kept = []
    for query in rows[_QUERY_INDEX].to_pylist():
        kept.append(rank[query] >= offset)
        rank[query] += 1
    return rows.filter(pa.array(kept, pa.bool_()))


def _parse_columns(
    dataset: LanceDataset, identifier: Identifier, request: QueryRequest
) -> list[str] | dict[str, str] | None:
    if request.columns is None or (request.columns.column_names is None and request.columns.column_aliases is None):
        return None
    names, aliases = request.columns.column_names, request.columns.column_aliases
    if names is not None and aliases is not None:
        raise InvalidInputError("The columns of a query are column_names or column_aliases, not both")
    if names is not None:
        require_fields(dataset, identifier, (name for name in names if not name.startswith("_")))
        return list(names)
    # An alias may stand for an expression. Only plain paths are checked.
    require_fields(dataset, identifier, (path for path in (aliases or {}).values() if _is_path(path)))
    return dict(aliases or {})


def _is_path(written: str) -> bool:
    return not written.startswith("_") and all(part.isidentifier() for part in written.split("."))


def _parse_vector(
    dataset: LanceDataset, identifier: Identifier, request: QueryRequest, most: int
) -> tuple[dict[str, Any], bool]:
    one, several = request.vector.single_vector, request.vector.multi_vector
    if one and several:
        raise InvalidInputError("The vector of a query is a single_vector or a multi_vector, not both")
    if not one and not several:
        return {}, False
    if several and (len({len(vector) for vector in several}) > 1 or not several[0]):
        raise InvalidInputError("The vectors of a query are empty, or have different lengths")
    column, kind = _find_vector_column(dataset, identifier, request.vector_column)
    if request.distance_type is not None and request.distance_type.lower() not in _DISTANCES:
        raise InvalidInputError(f"Unknown distance type {request.distance_type!r}; known: {', '.join(_DISTANCES)}")
    bounded = request.lower_bound is not None or request.upper_bound is not None
    ranged = request.minimum_nprobes is not None or request.maximum_nprobes is not None
    nearest = {
        "column": column,
        "q": one or several,
        "k": most,
        "metric": request.distance_type,
        "nprobes": None if ranged else request.nprobes or None,
        "minimum_nprobes": request.minimum_nprobes,
        "maximum_nprobes": request.maximum_nprobes,
        "refine_factor": request.refine_factor or None,
        "ef": request.ef or None,
        "use_index": not request.bypass_vector_index,
        "distance_range": (request.lower_bound, request.upper_bound) if bounded else None,
    }
    return nearest, bool(several) and pa.types.is_fixed_size_list(kind)


def _find_vector_column(dataset: LanceDataset, identifier: Identifier, named: str | None) -> tuple[str, pa.DataType]:
    """Return the column to search: the one in the request, else `vector`, else the only column of vectors."""
    if named is not None:
        require_fields(dataset, identifier, [named])
        column: Any = dataset.lance_schema.field(named)
        return named, column.to_arrow().type
    chosen = choose_vector_column(dataset.schema, identifier)
    return chosen, dataset.schema.field(chosen).type


def choose_vector_column(schema: pa.Schema, identifier: Identifier) -> str:
    """Return `vector`, or the only column of vectors. Raises InvalidInputError if there are none or several."""
    vectors = [str(one.name) for one in schema if _holds_vectors(one.type)]
    if _DEFAULT_VECTOR in vectors:
        return _DEFAULT_VECTOR
    if not vectors:
        raise InvalidInputError(f"Table {format_identifier(identifier)} has no column of vectors")
    if len(vectors) != 1:
        raise InvalidInputError(
            f"A vector query of table {format_identifier(identifier)} must set vector_column to one of "
            f"{sorted(vectors)}"
        )
    return vectors[0]


def _holds_vectors(kind: pa.DataType) -> bool:
    inner = kind.value_type if pa.types.is_list(kind) else kind
    inner = inner.storage_type if isinstance(inner, pa.BaseExtensionType) else inner
    numbers = pa.types.is_fixed_size_list(inner) and inner.value_type
    return bool(numbers) and (pa.types.is_floating(numbers) or pa.types.is_uint8(numbers) or pa.types.is_int8(numbers))
