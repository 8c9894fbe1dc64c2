"""Metadata of Spark's fields for what Spark's types cannot express."""

from __future__ import annotations

# The Arrow type of the column in the format of `type_text`, if Spark's type does not determine it.
ARROW_TYPE = "pennon.arrow.type"
# The width of a vector. It is enough to make an array a vector in a new table.
VECTOR_WIDTH = "pennon.vector.width"
# The column is not nullable in the table.
NOT_NULL = "pennon.not_null"

_OURS = "pennon."
_QUERY = "__"  # Spark's own metadata during a query


def to_arrow(metadata: dict[str, object]) -> dict[bytes, bytes]:
    """Return the texts in the metadata of a Spark field for Arrow, without the keys of Spark and Pennon."""
    return {
        key.encode(): value.encode()
        for key, value in metadata.items()
        if isinstance(value, str) and not key.startswith((_OURS, _QUERY))
    }
