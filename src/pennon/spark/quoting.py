"""Names in the SQL of Spark and of Lance."""

from __future__ import annotations


def quote_name(*parts: str) -> str:
    """Return a name with each part in backticks."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)
