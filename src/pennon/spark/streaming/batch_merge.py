"""Merges of micro-batches by key, for `foreachBatch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError, TableAlreadyExistsError
from pennon.identifiers import Identifier, format_identifier, parse_table_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from pennon.spark.address import Address
    from pennon.spark.lake import Lake, Name
    from pennon.spark.merging.clauses import ClauseSpec, MergeSpec

QUERY_ID = "sql.streaming.queryId"
"""The local property in which Spark stores the id of a streaming query, which its checkpoint contains."""


def merge_batches(
    lake: Lake,
    id: Name,
    *,
    on: str | Sequence[str],
    query: str | None = None,
    when_matched: ClauseSpec = "update",
    when_not_matched: ClauseSpec = "insert",
    when_not_matched_by_source: ClauseSpec = None,
    null_safe: bool = False,
    target_alias: str = "target",
    source_alias: str = "source",
    merge_schema: bool = False,
    branch: str | None = None,
    cache: bool = True,
) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that merges each batch into a table once; options are those of `lake.merge`.

    A repeated batch changes nothing. If the table does not exist and new rows are inserted as they are, the first batch
    creates it. `query` names the stream of one checkpoint, by default the id of the query. On Spark Connect, which does
    not provide that id, the function raises InvalidInputError without `query`.
    """
    # Processes that only plan streams import this package too.
    from pennon.spark.merging import merge
    from pennon.spark.merging.clauses import MergeSpec

    # The function may run in another process, which gets only the address.
    identifier, address = parse_table_name(id), lake.address
    spec = MergeSpec(
        on=[on] if isinstance(on, str) else list(on),
        when_matched=when_matched,
        when_not_matched=when_not_matched,
        when_not_matched_by_source=when_not_matched_by_source,
        null_safe=null_safe,
        target_alias=target_alias,
        source_alias=source_alias,
        merge_schema=merge_schema,
    )

    def merge_batch(batch: DataFrame, epoch: int) -> None:
        known = query or _find_query_id(batch)
        if known is None:
            raise InvalidInputError(
                f"The query of epoch {epoch} is unknown, so the epoch might be merged into "
                f"{format_identifier(identifier)} twice; name the stream with query="
            )
        job_id = f"{known}/{epoch}"
        if branch is not None or not _create_table(address, batch, identifier, spec, job_id):
            merge.merge(address, batch, identifier, spec, job_id=job_id, branch=branch, cache=cache)

    return merge_batch


def _create_table(address: Address, batch: DataFrame, identifier: Identifier, spec: MergeSpec, job_id: str) -> bool:
    """Create the table with the rows of a batch and return True, unless it exists or rows are not inserted as they are.

    The commit point is that of a write.
    """
    from pennon.spark import tables

    if not spec.clauses.inserts_all or tables.find_destination(address, identifier, None) is not None:
        return False
    try:
        tables.write(address, batch, identifier, "create", job_id=job_id)
    except TableAlreadyExistsError:
        return False  # another client has created it since
    return True


def _find_query_id(batch: DataFrame) -> str | None:
    """Return the id of the streaming query of a batch, or None on Spark Connect, which does not provide it."""
    try:
        found = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    except Exception:  # noqa: BLE001 - Spark Connect has no context, and an error of its own for saying so
        return None
    return None if found is None else str(found)
