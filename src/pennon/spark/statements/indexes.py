"""Execute the statements about indexes and maintenance."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.errors import (
    InvalidInputError,
    TableIndexAlreadyExistsError,
    TableIndexNotFoundError,
    translate_errors,
)
from pennon.identifiers import Identifier, format_identifier, quote_identifier
from pennon.spark.lake_listing import ResultRows
from pennon.spark.reading.pinned import pin
from pennon.spark.tables.destination import locate_table
from pennon.table.index_kinds import parse_kind, parse_parameter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pennon.spark.address import Address
    from pennon.spark.jobs import JobResults
    from pennon.spark.lake import Lake

_GENERAL_KINDS = {"VECTOR": "IVF_PQ", "SCALAR": "BTREE"}
_NUMERIC_OPTIONS = ("num_partitions", "num_sub_vectors", "num_bits", "rows_per_task")


def create_index(
    lake: Lake,
    table: Identifier,
    columns: Sequence[str],
    *,
    name: str | None,
    kind: str | None,
    options: Mapping[str, str],
    if_not_exists: bool,
    replace: bool,
) -> ResultRows:
    """Create an index on a column. The default kind depends on the type of the column."""
    from pennon.spark import jobs

    if len(columns) != 1:
        raise InvalidInputError(
            f"An index of table {format_identifier(table)} needs exactly one column, got {len(columns)}"
        )
    column = columns[0]
    name = name or f"{column}_idx"
    _, dataset = pin(lake.address, table)
    existing = [index.name for index in dataset.describe_indices()]
    if name in existing and not replace and not if_not_exists:
        raise TableIndexAlreadyExistsError(f"Table {format_identifier(table)} already has an index {name!r}")
    kind = _choose_kind(dataset.schema, column, kind)
    parsed = _parse_index_options(options)
    done = _run_job(jobs.index, lake, table, column, kind, name=name, replace=replace, **parsed)
    version = done["version_after"] or done["version_before"]
    row = (quote_identifier(table), name, kind, column, done["rows"], version)
    return ResultRows([row], "table string, index string, type string, column string, rows bigint, version bigint")


def drop_index(address: Address, table: Identifier, name: str, *, if_exists: bool) -> ResultRows:
    """Drop an index."""
    with translate_errors(f"Dropping an index of table {format_identifier(table)}"):
        dataset = locate_table(address, table).latest()
        dropped = name in [one.name for one in dataset.describe_indices()]
        if dropped:
            dataset.drop_index(name)
        elif not if_exists:
            raise TableIndexNotFoundError(f"Table {format_identifier(table)} has no index {name!r}")
    return ResultRows([(quote_identifier(table), name, dropped)], "table string, index string, dropped boolean")


def optimize(lake: Lake, table: Identifier) -> ResultRows:
    """Compact small fragments of a table and add new rows to its indexes."""
    from pennon.spark import jobs

    compacted = _run_job(jobs.compact, lake, table)
    indexed = _run_job(jobs.optimize_indexes, lake, table)
    version = indexed["version_after"] or compacted["version_after"] or compacted["version_before"]
    names = ("fragments_before", "fragments_after", "files_removed", "files_added", "bytes_rewritten")
    row = (quote_identifier(table), version, *(compacted[name] for name in names))
    return ResultRows([row], "table string, version bigint, " + ", ".join(f"{name} bigint" for name in names))


def vacuum(lake: Lake, table: Identifier, hours: float | None, *, dry_run: bool) -> ResultRows:
    """Delete versions of a table that are older than some hours, and the files that only they use."""
    from pennon.spark import jobs

    age = None if hours is None else timedelta(hours=hours)
    done = _run_job(jobs.cleanup, lake, table, older_than=age, dry_run=dry_run)
    names = ("versions_removed", "versions_left", "bytes_removed", "data_files_removed")
    schema = "table string, " + ", ".join(f"{name} bigint" for name in names) + ", dry_run boolean"
    return ResultRows([(quote_identifier(table), *(done[name] for name in names), dry_run)], schema)


def _run_job(job: Callable[..., JobResults], lake: Lake, table: Identifier, *arguments: Any, **options: Any) -> Any:
    """Run a job on one table, and return its result, or raise the error that it reports.

    Raises NamespaceNotFoundError or TableNotFoundError if the table does not exist.
    """
    from pennon.spark.jobs import SingleTable

    locate_table(lake.address, table)
    return job(lake, SingleTable(table), *arguments, progress=False, **options).only()


def _choose_kind(schema: pa.Schema, column: str, requested: str | None) -> str:
    if requested is None:
        is_vector = column in schema.names and pa.types.is_fixed_size_list(schema.field(column).type)
        requested = "VECTOR" if is_vector else "SCALAR"
    return _GENERAL_KINDS.get(requested.upper()) or parse_kind(requested)


def _parse_index_options(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of the job. Those that it does not know are parameters of Lance."""
    options: dict[str, Any] = {}
    params: dict[str, Any] = {}
    for key, value in given.items():
        if key == "metric":
            options[key] = value
        elif key not in _NUMERIC_OPTIONS:
            params[key] = parse_parameter(value)
        elif value.isdigit():
            options[key] = int(value)
        else:
            raise InvalidInputError(f"The index option {key!r} must be a whole number, got {value!r}")
    return {**options, "params": params}
