"""What Pennon keeps in the metadata of Spark's fields, because Spark's types cannot say it."""

from __future__ import annotations

# The Arrow type of the column, spelled as in pennon.spark.types.type_text, where Spark's type does not lead back to it.
ARROW_TYPE = "pennon.arrow.type"
# The width of a vector. Alone it is enough to make an array a vector of a new table.
VECTOR_WIDTH = "pennon.vector.width"
# The table refuses nulls in the column.
NOT_NULL = "pennon.not_null"

_OURS = "pennon."
_QUERY = "__"  # what Spark keeps there for the length of a query


def from_arrow(metadata: dict[bytes, bytes] | None) -> dict[str, str]:
    """Give the metadata of an Arrow field as Spark's."""
    return {key.decode(): value.decode() for key, value in (metadata or {}).items()}


def to_arrow(metadata: dict[str, object]) -> dict[bytes, bytes]:
    """Give the texts in the metadata of a Spark field as Arrow's, without what only Spark or Pennon reads."""
    return {
        key.encode(): value.encode()
        for key, value in metadata.items()
        if isinstance(value, str) and not key.startswith((_OURS, _QUERY))
    }
