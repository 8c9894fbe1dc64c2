"""Indexes of a table: create, list, describe, drop."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TableIndexAlreadyExistsError,
    TableIndexNotFoundError,
)
from pennon.identifiers import format_identifier
from pennon.table import field_paths, index_kinds
from pennon.table.lance_errors import is_race, translate_errors

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import pyarrow as pa
    from lance import LanceDataset

    from pennon.identifiers import Identifier

_SYSTEM = "__"
_LANCE_NAMES = {"distance_type": "metric", "max_iterations": "max_iters"}


@dataclass(frozen=True)
class IndexSpec:
    """An index to create. Its parameters have the names of the namespace interface."""

    column: str
    kind: str
    name: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class IndexState:
    """An index at one version of a table."""

    name: str
    uuid: str
    columns: tuple[str, ...]
    kind: str
    type_url: str
    rows: int
    """Rows in the index that are not deleted."""
    rows_left: int
    segments: int
    size_bytes: int | None
    created_at: datetime | None
    format_version: int | None
    details: Mapping[str, Any]

    @property
    def metric(self) -> str | None:
        """The metric of a vector index."""
        found = self.details.get("metric_type")
        return None if found is None else str(found).lower()

    @property
    def details_json(self) -> str:
        """The details as JSON with sorted keys."""
        return json.dumps(self.details, sort_keys=True, default=str)


def create(dataset: LanceDataset, identifier: Identifier, spec: IndexSpec) -> None:
    """Build an index over all rows and commit it.

    The commit point is the table's next version. If several clients use the same name, one succeeds. The others get
    TableIndexAlreadyExistsError. Raises TableColumnNotFoundError, InvalidInputError, ConcurrentModificationError.
    """
    kind = index_kinds.parse_kind(spec.kind)
    index_kinds.check_parameters(kind, spec.parameters)
    path, column = field_paths.find_column(dataset, identifier, spec.column)
    options = _build_options(kind, path, column, spec.parameters)
    name = spec.name if spec.name is not None else _choose_name(dataset, identifier, path, kind)
    if not name or name.startswith(_SYSTEM):
        raise InvalidInputError(f"An index of table {format_identifier(identifier)} cannot have the name {name!r}")
    if name in _read_indexes(dataset):
        raise _exists_error(identifier, name)
    try:
        with translate_errors(
            f"Index '{name}' of kind {kind} on column {path!r} of table {format_identifier(identifier)}"
        ):
            _build(dataset, path, kind, name, options)
    except Exception as error:
        cause = error.__cause__ or error
        if "already exists" in str(cause).lower():
            raise _exists_error(identifier, name) from error
        if is_race(cause):
            dataset.checkout_latest()
            if name in _read_indexes(dataset):
                raise _exists_error(identifier, name) from error
        raise
    if not set(_read_indexes(dataset)[name].fields) <= set(field_paths.read_field_ids(dataset).values()):
        # Lance commits an index even if its column was dropped. It would make every filtered read fail.
        dataset.drop_index(name)
        raise ConcurrentModificationError(
            f"Column {path!r} of table {format_identifier(identifier)} was dropped by another client"
        )


def list_names(dataset: LanceDataset) -> list[str]:
    """Return the names of all indexes, sorted, without Lance's own."""
    return list(_read_indexes(dataset))


def list_indexes(dataset: LanceDataset) -> dict[str, IndexState]:
    """Return all indexes by name, sorted, without Lance's own."""
    rows = int(dataset.count_rows())
    return {name: _to_state(found, rows) for name, found in _read_indexes(dataset).items()}


def describe(dataset: LanceDataset, identifier: Identifier, name: str | None) -> IndexState:
    """Return one index. Raises TableIndexNotFoundError, InvalidInputError."""
    if not name:
        raise InvalidInputError(f"The name of the index of table {format_identifier(identifier)} is missing")
    found = _read_indexes(dataset).get(name)
    if found is None:
        raise TableIndexNotFoundError(f"Table {format_identifier(identifier)} has no index '{name}'")
    return _to_state(found, int(dataset.count_rows()))


def drop(dataset: LanceDataset, identifier: Identifier, name: str | None) -> None:
    """Drop an index. The commit point is the table's next version.

    If several clients drop it, one succeeds. The others get TableIndexNotFoundError, and may commit a version without
    changes. Raises InvalidInputError, ConcurrentModificationError.
    """
    before, found = int(dataset.version), describe(dataset, identifier, name)
    try:
        with translate_errors(f"Index '{name}' of table {format_identifier(identifier)}"):
            dataset.drop_index(str(name))
    except (OSError, ValueError, RuntimeError) as error:
        if "index not found" in str(error).lower():
            raise TableIndexNotFoundError(f"Table {format_identifier(identifier)} has no index '{name}'") from error
        raise
    if int(dataset.version) > before + 1:
        _require_own_drop(dataset, identifier, found)


def _require_own_drop(dataset: LanceDataset, identifier: Identifier, dropped: IndexState) -> None:
    """Raise unless the index existed until the open version: Lance lets several clients drop the same index."""
    there = _read_indexes(dataset.checkout_version(int(dataset.version) - 1)).get(dropped.name)
    if there is None:
        raise TableIndexNotFoundError(f"Table {format_identifier(identifier)} has no index '{dropped.name}'")
    if dropped.uuid not in {str(one.uuid) for one in there.segments}:
        raise ConcurrentModificationError(
            f"Index '{dropped.name}' of table {format_identifier(identifier)} was rebuilt by another client"
        )


def _build(dataset: LanceDataset, path: str, kind: str, name: str, options: Mapping[str, Any]) -> None:
    if kind in index_kinds.VECTOR_KINDS:
        dataset.create_index(path, kind, name=name, replace=False, **options)
    else:
        dataset.create_scalar_index(path, cast("Any", kind), name=name, replace=False, **options)


def _build_options(kind: str, path: str, column: pa.Field, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters for Lance, with better defaults. Raises InvalidInputError if they do not fit the column."""
    options = {_LANCE_NAMES.get(key, key): value for key, value in given.items()}
    if kind not in index_kinds.VECTOR_KINDS:
        return options
    vector_width = index_kinds.read_vector_width(column.type)
    if vector_width is None:
        raise InvalidInputError(f"Column {path!r} has the type {column.type}, not vectors of one width")
    options["metric"] = index_kinds.parse_metric(given.get("distance_type", "l2"))
    if kind.endswith("PQ"):
        options["num_sub_vectors"] = index_kinds.choose_sub_vectors(path, vector_width, given.get("num_sub_vectors"))
    return options


def _choose_name(dataset: LanceDataset, identifier: Identifier, path: str, kind: str) -> str:
    """Return a free name. Raises TableIndexAlreadyExistsError for a second index of this kind on the column."""
    taken = _read_indexes(dataset)
    normalized = index_kinds.normalize_kind(kind)
    for one in taken.values():
        if list(one.field_names) == [path] and index_kinds.normalize_kind(one.index_type) == normalized:
            raise _exists_error(identifier, one.name)
    name, number = f"{path}_idx", 1
    while name in taken:
        number += 1
        name = f"{path}_idx_{number}"
    return name


def _read_indexes(dataset: LanceDataset) -> dict[str, Any]:
    found = {one.name: one for one in dataset.describe_indices() if not one.name.startswith(_SYSTEM)}
    return dict(sorted(found.items()))


def _to_state(found: Any, rows: int) -> IndexState:
    segments = list(found.segments)
    return IndexState(
        name=found.name,
        uuid=str(segments[0].uuid),
        columns=tuple(found.field_names),
        kind=found.index_type,
        type_url=found.type_url,
        rows=int(found.num_rows_indexed),
        rows_left=max(0, rows - int(found.num_rows_indexed)),
        segments=len(segments),
        size_bytes=found.total_size_bytes,
        created_at=min((one.created_at for one in segments if one.created_at is not None), default=None),
        format_version=max(int(one.index_version) for one in segments),
        details=dict(found.details or {}),
    )


def _exists_error(identifier: Identifier, name: str) -> TableIndexAlreadyExistsError:
    return TableIndexAlreadyExistsError(f"Table {format_identifier(identifier)} has an index '{name}' already")
