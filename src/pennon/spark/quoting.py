"""Names as Spark and Lance read them in texts."""

from __future__ import annotations


def quote_name(*parts: str) -> str:
    """Write the parts of a name between backticks, whatever they are made of."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)
