"""Merges of micro-batches by key, for `foreachBatch`."""

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
    """Return a function that merges each batch into a table once."""
    identifier = parse_table_name(name)
    address, label = lake.address, lake.name

    def merge(batch: DataFrame, epoch: int) -> None:
        known = query or _find_query_id(batch)
        if known is None:
            raise InvalidInputError(
                f"The query of epoch {epoch} is unknown, so the epoch might be merged into "
                f"{format_identifier(identifier)} twice; name the stream with query="
            )
        # A batch has a session of its own, and the function may run in another process, which gets only the address.
        Lake(batch.sparkSession, label, address).merge(batch, identifier, on=on, job_id=f"{known}/{epoch}", **clauses)

    return merge


def _find_query_id(batch: DataFrame) -> str | None:
    """Return the id of the streaming query of a batch, or None on Spark Connect, which does not provide it."""
    try:
        found = batch.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    except Exception:  # noqa: BLE001 - Spark Connect has no context, and an error of its own for saying so
        return None
    return None if found is None else str(found)
