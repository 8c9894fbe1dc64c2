"""Functions for `foreachBatch`, for what a stream writer cannot do: merges by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError
from pennon.identifiers import format_identifier
from pennon.spark.lake import Lake, parse_table_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from pennon.spark.lake import Name

_QUERY_ID = "sql.streaming.queryId"


def create_batch_merge(
    lake: Lake, name: Name, *, on: str | Sequence[str], query: str | None, clauses: dict[str, Any]
) -> Callable[[DataFrame, int], None]:
    """Make a function that merges every batch into a table, each once."""
    identifier = parse_table_name(name)
    address, label = lake.address, lake.name

    def merge(batch: DataFrame, epoch: int) -> None:
        known = query or _find_query_id(batch)
        if known is None:
            raise InvalidInputError(
                f"Nobody can tell to which query epoch {epoch} belongs, so it might be merged into "
                f"{format_identifier(identifier)} twice; name the stream with query="
            )
        # A batch has a session of its own, and no lake but its address travels where the function goes.
        Lake(batch.sparkSession, label, address).merge(batch, identifier, on=on, job_id=f"{known}/{epoch}", **clauses)

    return merge


def _find_query_id(batch: DataFrame) -> str | None:
    """Give the id of the streaming query that made a batch; Spark Connect does not tell it."""
    try:
        found = batch.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    except Exception:  # noqa: BLE001 - Spark Connect has no context, and an error of its own for saying so
        return None
    return None if found is None else str(found)
