"""Merges of micro-batches by key, for `foreachBatch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.identifiers import format_identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame
    from typing_extensions import Unpack

    from pennon.spark.lake import Lake, Name
    from pennon.spark.merging.clauses import MergeOptions

QUERY_ID = "sql.streaming.queryId"
"""The local property in which Spark stores the id of a streaming query, which its checkpoint contains."""


def merge_batches(
    lake: Lake,
    id: Name,
    *,
    on: str | Sequence[str],
    query: str | None = None,
    branch: str | None = None,
    cache: bool = True,
    **options: Unpack[MergeOptions],
) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that merges each batch into a table once; options are those of `lake.merge`.

    A repeated batch changes nothing. `query` names the stream of one checkpoint, by default the id of the query. On
    Spark Connect, which does not provide that id, the function raises InvalidInputError without `query`.
    """
    # Processes that only plan streams import this package too.
    from pennon.spark.lake import Lake, parse_table_name

    identifier = parse_table_name(id)
    address, label = lake.address, lake.name

    def merge(batch: DataFrame, epoch: int) -> None:
        known = query or _find_query_id(batch)
        if known is None:
            raise InvalidInputError(
                f"The query of epoch {epoch} is unknown, so the epoch might be merged into "
                f"{format_identifier(identifier)} twice; name the stream with query="
            )
        # A batch has a session of its own, and the function may run in another process, which gets only the address.
        there = Lake(batch.sparkSession, label, address)
        there.merge(batch, identifier, on=on, job_id=f"{known}/{epoch}", branch=branch, cache=cache, **options)

    return merge


def _find_query_id(batch: DataFrame) -> str | None:
    """Return the id of the streaming query of a batch, or None on Spark Connect, which does not provide it."""
    try:
        found = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    except Exception:  # noqa: BLE001 - Spark Connect has no context, and an error of its own for saying so
        return None
    return None if found is None else str(found)
