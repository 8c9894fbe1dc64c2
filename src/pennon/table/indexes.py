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
from pennon.table.lance_errors import bad_input_told, is_race

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import pyarrow as pa
    from lance import LanceDataset

    from pennon.identifiers import Identifier

_SYSTEM = "__"
_LANCE_NAMES = {"distance_type": "metric", "max_iterations": "max_iters"}


@dataclass(frozen=True)
class IndexWish:
    """The index that is asked for; parameters have the names of the namespace interface."""

    column: str
    kind: str
    name: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class IndexState:
    """An index as it is at one version of a table."""

    name: str
    uuid: str
    columns: tuple[str, ...]
    kind: str
    type_url: str
    rows: int
    """Live rows that it covers."""
    rows_left: int
    segments: int
    size_bytes: int | None
    created_at: datetime | None
    format_version: int | None
    details: Mapping[str, Any]

    @property
    def metric(self) -> str | None:
        """Name the metric of a vector index."""
        found = self.details.get("metric_type")
        return None if found is None else str(found).lower()

    @property
    def details_json(self) -> str:
        """Give the details as JSON, the same text each time."""
        return json.dumps(self.details, sort_keys=True, default=str)


def create(dataset: LanceDataset, identifier: Identifier, wish: IndexWish) -> None:
    """Build an index over all rows and commit it; errors 7, 12, 13, 14.

    The commit point is the table's next version. Of several callers with one name, one succeeds; the others get 7.
    """
    kind = index_kinds.known(wish.kind)
    index_kinds.check(kind, wish.parameters)
    path, column = field_paths.resolved(dataset, identifier, wish.column)
    options = _options(kind, path, column, wish.parameters)
    name = wish.name if wish.name is not None else _free_name(dataset, identifier, path, kind)
    if not name or name.startswith(_SYSTEM):
        raise InvalidInputError(f"An index of table {format_identifier(identifier)} cannot have the name {name!r}")
    if name in _described(dataset):
        raise _exists(identifier, name)
    try:
        with bad_input_told(
            f"Index '{name}' of kind {kind} on column {path!r} of table {format_identifier(identifier)}"
        ):
            _build(dataset, path, kind, name, options)
    except Exception as error:
        cause = error.__cause__ or error
        if "already exists" in str(cause).lower():
            raise _exists(identifier, name) from error
        if is_race(cause):
            dataset.checkout_latest()
            if name in _described(dataset):
                raise _exists(identifier, name) from error
        raise
    if not set(_described(dataset)[name].fields) <= field_paths.ids(dataset):
        # Lance commits an index beside the end of its column. It would make every filtered read fail.
        dataset.drop_index(name)
        raise ConcurrentModificationError(
            f"Column {path!r} of table {format_identifier(identifier)} was dropped meanwhile"
        )


def names(dataset: LanceDataset) -> list[str]:
    """Name all indexes, sorted, without Lance's own."""
    return list(_described(dataset))


def list_indexes(dataset: LanceDataset) -> dict[str, IndexState]:
    """Give all indexes by name, sorted, without Lance's own."""
    rows = int(dataset.count_rows())
    return {name: _state(found, rows) for name, found in _described(dataset).items()}


def describe(dataset: LanceDataset, identifier: Identifier, name: str | None) -> IndexState:
    """Describe one index; errors 6, 13."""
    if not name:
        raise InvalidInputError(f"Which index of table {format_identifier(identifier)}? Give its name")
    found = _described(dataset).get(name)
    if found is None:
        raise TableIndexNotFoundError(f"Table {format_identifier(identifier)} has no index '{name}'")
    return _state(found, int(dataset.count_rows()))


def drop(dataset: LanceDataset, identifier: Identifier, name: str | None) -> None:
    """Take an index away; the commit point is the table's next version. Errors 6, 13, 14.

    Of several callers one succeeds; the others get 6, though a version that changes nothing may have come of it.
    """
    before, found = int(dataset.version), describe(dataset, identifier, name)
    try:
        with bad_input_told(f"Index '{name}' of table {format_identifier(identifier)}"):
            dataset.drop_index(str(name))
    except (OSError, ValueError, RuntimeError) as error:
        if "index not found" in str(error).lower():
            raise TableIndexNotFoundError(f"Table {format_identifier(identifier)} has no index '{name}'") from error
        raise
    if int(dataset.version) > before + 1:
        _require_own_drop(dataset, identifier, found)


def _require_own_drop(dataset: LanceDataset, identifier: Identifier, dropped: IndexState) -> None:
    """Raise unless the index was there until the open version: Lance lets everybody drop what was there at first."""
    there = _described(dataset.checkout_version(int(dataset.version) - 1)).get(dropped.name)
    if there is None:
        raise TableIndexNotFoundError(f"Table {format_identifier(identifier)} has no index '{dropped.name}' any more")
    if dropped.uuid not in {str(one.uuid) for one in there.segments}:
        raise ConcurrentModificationError(
            f"Index '{dropped.name}' of table {format_identifier(identifier)} was built anew meanwhile"
        )


def _build(dataset: LanceDataset, path: str, kind: str, name: str, options: Mapping[str, Any]) -> None:
    if kind in index_kinds.VECTOR:
        dataset.create_index(path, kind, name=name, replace=False, **options)
    else:
        dataset.create_scalar_index(path, cast("Any", kind), name=name, replace=False, **options)


def _options(kind: str, path: str, column: pa.Field, given: Mapping[str, Any]) -> dict[str, Any]:
    """Turn parameters into Lance's, with what Lance would not choose well itself; 13 for what does not fit."""
    options = {_LANCE_NAMES.get(key, key): value for key, value in given.items()}
    if kind not in index_kinds.VECTOR:
        return options
    vector_width = index_kinds.width(column.type)
    if vector_width is None:
        raise InvalidInputError(f"Column {path!r} holds {column.type}, not vectors of one width")
    options["metric"] = index_kinds.metric(given.get("distance_type", "l2"))
    if kind.endswith("PQ"):
        options["num_sub_vectors"] = index_kinds.sub_vectors(path, vector_width, given.get("num_sub_vectors"))
    return options


def _free_name(dataset: LanceDataset, identifier: Identifier, path: str, kind: str) -> str:
    """Choose a name that is free; a second index of the same kind on the same column raises 7."""
    taken = _described(dataset)
    for one in taken.values():
        if list(one.field_names) == [path] and index_kinds.plain(one.index_type) == index_kinds.plain(kind):
            raise _exists(identifier, one.name)
    name, number = f"{path}_idx", 1
    while name in taken:
        number += 1
        name = f"{path}_idx_{number}"
    return name


def _described(dataset: LanceDataset) -> dict[str, Any]:
    found = {one.name: one for one in dataset.describe_indices() if not one.name.startswith(_SYSTEM)}
    return dict(sorted(found.items()))


def _state(found: Any, rows: int) -> IndexState:
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


def _exists(identifier: Identifier, name: str) -> TableIndexAlreadyExistsError:
    return TableIndexAlreadyExistsError(f"Table {format_identifier(identifier)} has an index '{name}' already")
