"""Queries: filters, vector search, full-text search, and both together.

A request becomes the arguments of a Lance scanner; a hybrid one becomes two of them. `k` is the number of rows of the
answer, after `offset` of them: 0 gives none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.errors import InvalidInputError
from pennon.identifiers import Identifier, format_identifier
from pennon.table import fusion
from pennon.table.blobs import has_blobs
from pennon.table.full_text import full_text
from pennon.table.lance_errors import judged
from pennon.table.requirements import require_complete, require_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lance import LanceDataset
    from lance.dataset import LanceScanner
    from lance_namespace import AnalyzeTableQueryPlanRequest, QueryTableRequest

    Asked = QueryTableRequest | AnalyzeTableQueryPlanRequest

DISTANCE, SCORE, ROW_ID, QUERY_INDEX = "_distance", "_score", "_rowid", "query_index"
_DEFAULT_VECTOR = "vector"
_DISTANCES = ("l2", "euclidean", "cosine", "dot", "hamming")
_READ_AHEAD_BYTES = 64 << 20
"""How much Lance may read ahead of whoever takes the rows: its own default is 2 GB."""
_FEW_ROWS, _MOST_ROWS = 64, 8192
_BATCH_BYTES = 1 << 20
"""How much of a data file goes into a batch, which may be several times as large in memory."""
_LOOKED_AT = 16


@dataclass(frozen=True)
class Query:
    """What a request asks of an open table."""

    identifier: Identifier
    columns: list[str] | dict[str, str] | None
    limit: int
    offset: int
    options: Mapping[str, Any]
    """Filter and the like: arguments of every scanner that the query needs."""
    nearest: dict[str, Any] = field(default_factory=dict)
    is_batch: bool = False
    """Several vectors, each with an answer of its own."""
    text: Any = None

    @property
    def is_hybrid(self) -> bool:
        """Tell whether both a vector and a text are looked for."""
        return bool(self.nearest) and self.text is not None


def understood(dataset: LanceDataset, identifier: Identifier, asked: Asked) -> Query:
    """Read a request; errors 12 for unknown columns, 13 for what makes no sense."""
    columns = _columns(dataset, identifier, asked)
    require_complete(identifier, asked.filter, *(columns.values() if isinstance(columns, dict) else ()))
    limit, offset = asked.k, asked.offset or 0
    with judged("reading a full-text query", identifier):
        text = full_text(dataset, identifier, asked.full_text_query)
    if text is not None or asked.vector.single_vector or asked.vector.multi_vector:
        # Lance sets memory aside for as many rows as a search may find, and ends the process if there is too little.
        rows = max(dataset.count_rows(), 1)
        limit, offset = min(limit, rows), min(offset, rows)
    nearest, is_batch = _nearest(dataset, identifier, asked, limit + offset)
    query = Query(
        identifier,
        columns,
        limit,
        offset,
        {
            "filter": asked.filter,
            "prefilter": bool(asked.prefilter),
            "fast_search": asked.fast_search or None,
            "with_row_id": asked.with_row_id or None,
            "io_buffer_size": _READ_AHEAD_BYTES,
            "batch_size": _batch_size(dataset, asked.k),
            "blob_handling": "all_binary",  # where a blob lies in Lance's files is of no use to others
        },
        nearest,
        is_batch,
        text,
    )
    if query.is_hybrid and is_batch:
        raise InvalidInputError(f"A hybrid query of table {format_identifier(identifier)} has one vector, not several")
    return query


def batches(dataset: LanceDataset, query: Query) -> pa.RecordBatchReader:
    """Run a query; rows are read as they are taken. Errors 12 and 13, also while they are taken."""
    with judged("querying", query.identifier):
        if query.is_hybrid:
            return _hybrid(dataset, query).to_reader()
        if query.limit == 0 and query.nearest:
            return _empty(dataset, query).to_reader()
        if query.is_batch and query.offset:
            return fusion.without_first(_scanner(dataset, query).to_table(), query.offset).to_reader()
        reader = _scanner(dataset, query).to_reader()
    return pa.RecordBatchReader.from_batches(reader.schema, _taken(reader, query))


def count_rows(dataset: LanceDataset, identifier: Identifier, predicate: str | None) -> int:
    """Return the number of rows that meet a predicate, or of all rows. Raises InvalidInputError for the predicate."""
    require_complete(identifier, predicate)
    with judged(f"counting {predicate!r}", identifier):
        return int(dataset.count_rows(predicate))


def explained(dataset: LanceDataset, query: Query, *, verbose: bool) -> str:
    """Tell how a query would be run; of a hybrid one, how both of its searches would."""
    return _plans(dataset, query, lambda scanner: scanner.explain_plan(verbose))


def analyzed(dataset: LanceDataset, query: Query) -> str:
    """Run a query and tell what it cost."""
    return _plans(dataset, query, lambda scanner: scanner.analyze_plan())


def _batch_size(dataset: LanceDataset, most: int) -> int | None:
    """Choose how many rows are read at once: Lance holds several batches, and cuts them by rows, however large."""
    if most <= _FEW_ROWS:
        return None
    if any(has_blobs(column) for column in dataset.schema):
        return _FEW_ROWS
    some = [fragment.metadata for fragment in islice(dataset.get_fragments(), _LOOKED_AT)]
    rows = sum(one.physical_rows for one in some)
    stored = sum(file.file_size_bytes or 0 for one in some for file in one.files)
    return min(max(_BATCH_BYTES * rows // max(stored, 1), 1), _MOST_ROWS)


def _plans(dataset: LanceDataset, query: Query, told: Callable[[LanceScanner], str]) -> str:
    with judged("planning a query", query.identifier):
        if not query.is_hybrid:
            return told(_scanner(dataset, query))
        vector, text = (told(one) for one in _both(dataset, query))
        return f"Vector search:\n{vector}\nFull-text search:\n{text}"


def _scanner(dataset: LanceDataset, query: Query) -> LanceScanner:
    if query.nearest:
        # Of several vectors each has its own limit, which `nearest` has.
        limits: dict[str, Any] = {} if query.is_batch else {"limit": query.limit, "offset": query.offset}
        nearest = {**query.nearest, "k": max(query.nearest["k"], 1)}
        return dataset.scanner(_scored(query.columns, DISTANCE), nearest=nearest, **limits, **_shared(query))
    found: dict[str, Any] = {"limit": query.limit, "offset": query.offset or None}
    if query.text is not None:
        return dataset.scanner(_scored(query.columns, SCORE), full_text_query=query.text, **found, **_shared(query))
    return dataset.scanner(query.columns, **found, **query.options)


def _shared(query: Query) -> dict[str, Any]:
    return {**query.options, "disable_scoring_autoprojection": query.columns is not None or None}


def _scored(columns: list[str] | dict[str, str] | None, score: str) -> list[str] | dict[str, str] | None:
    """Ask for the score as well, which every answer of a search has."""
    if columns is None or score in columns:
        return columns
    return [*columns, score] if isinstance(columns, list) else {**columns, score: score}


def _empty(dataset: LanceDataset, query: Query) -> pa.Table:
    return _scanner(dataset, query).projected_schema.empty_table()


def _taken(reader: pa.RecordBatchReader, query: Query) -> Any:
    while True:
        with judged("querying", query.identifier):
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
        yield batch


def _both(dataset: LanceDataset, query: Query) -> tuple[LanceScanner, LanceScanner]:
    """Give the two searches of a hybrid query, each with as many rows as could be in the answer."""
    most = max(query.limit + query.offset, 1)
    options = {**_shared(query), "with_row_id": True}
    vector = dataset.scanner(
        _scored(query.columns, DISTANCE), nearest={**query.nearest, "k": most}, limit=most, **options
    )
    text = dataset.scanner(_scored(query.columns, SCORE), full_text_query=query.text, limit=most, **options)
    return vector, text


def _hybrid(dataset: LanceDataset, query: Query) -> pa.Table:
    vector, text = (one.to_table() for one in _both(dataset, query))
    fused = fusion.fused(vector, text).slice(query.offset, query.limit)
    asked_for = query.options["with_row_id"] or ROW_ID in (query.columns or ())
    return fused if asked_for else fused.drop_columns([ROW_ID])


def _columns(dataset: LanceDataset, identifier: Identifier, asked: Asked) -> list[str] | dict[str, str] | None:
    if asked.columns is None or (asked.columns.column_names is None and asked.columns.column_aliases is None):
        return None
    names, aliases = asked.columns.column_names, asked.columns.column_aliases
    if names is not None and aliases is not None:
        raise InvalidInputError("The columns of a query are column_names or column_aliases, not both")
    if names is not None:
        require_fields(dataset, identifier, (name for name in names if not name.startswith("_")))
        return list(names)
    # What an alias stands for may be an expression; a plain path is looked up.
    require_fields(dataset, identifier, (path for path in (aliases or {}).values() if _is_path(path)))
    return dict(aliases or {})


def _is_path(written: str) -> bool:
    return not written.startswith("_") and all(part.isidentifier() for part in written.split("."))


def _nearest(dataset: LanceDataset, identifier: Identifier, asked: Asked, most: int) -> tuple[dict[str, Any], bool]:
    one, several = asked.vector.single_vector, asked.vector.multi_vector
    if one and several:
        raise InvalidInputError("The vector of a query is a single_vector or a multi_vector, not both")
    if not one and not several:
        return {}, False
    if several and (len({len(vector) for vector in several}) > 1 or not several[0]):
        raise InvalidInputError("The vectors of a query are empty, or have different lengths")
    column, kind = _vector_column(dataset, identifier, asked.vector_column)
    if asked.distance_type is not None and asked.distance_type.lower() not in _DISTANCES:
        raise InvalidInputError(f"Unknown distance type {asked.distance_type!r}; known: {', '.join(_DISTANCES)}")
    bounded = asked.lower_bound is not None or asked.upper_bound is not None
    ranged = asked.minimum_nprobes is not None or asked.maximum_nprobes is not None
    nearest = {
        "column": column,
        "q": one or several,
        "k": most,
        "metric": asked.distance_type,
        "nprobes": None if ranged else asked.nprobes or None,
        "minimum_nprobes": asked.minimum_nprobes,
        "maximum_nprobes": asked.maximum_nprobes,
        "refine_factor": asked.refine_factor or None,
        "ef": asked.ef or None,
        "use_index": not asked.bypass_vector_index,
        "distance_range": (asked.lower_bound, asked.upper_bound) if bounded else None,
    }
    return nearest, bool(several) and pa.types.is_fixed_size_list(kind)


def _vector_column(dataset: LanceDataset, identifier: Identifier, named: str | None) -> tuple[str, pa.DataType]:
    """Find the column to search: the one that is named, else `vector`, else the only one with vectors."""
    if named is not None:
        require_fields(dataset, identifier, [named])
        column: Any = dataset.lance_schema.field(named)
        return named, column.to_arrow().type
    vectors = {one.name: one.type for one in dataset.schema if _holds_vectors(one.type)}
    if _DEFAULT_VECTOR in vectors:
        return _DEFAULT_VECTOR, vectors[_DEFAULT_VECTOR]
    if len(vectors) != 1:
        raise InvalidInputError(
            f"A vector query of table {format_identifier(identifier)} has to name its vector_column: it has "
            f"{sorted(vectors)}"
        )
    return next(iter(vectors.items()))


def _holds_vectors(kind: pa.DataType) -> bool:
    inner = kind.value_type if pa.types.is_list(kind) else kind
    inner = inner.storage_type if isinstance(inner, pa.BaseExtensionType) else inner
    numbers = pa.types.is_fixed_size_list(inner) and inner.value_type
    return bool(numbers) and (pa.types.is_floating(numbers) or pa.types.is_uint8(numbers) or pa.types.is_int8(numbers))
