"""Extensions of DuckDB, which wheels install."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import duckdb


class ExtensionMissingError(Exception):
    """An extension of DuckDB cannot be loaded."""


def load_extension(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Load an extension; raises ExtensionMissingError if no wheel has it for this version of DuckDB."""
    found = importlib.util.find_spec(f"duckdb_extension_{name}")
    if found is None or found.origin is None:
        raise ExtensionMissingError(f"the wheel duckdb-extension-{name} is not installed")
    path = Path(found.origin).parent / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"
    if not path.exists():
        raise ExtensionMissingError(f"the wheel duckdb-extension-{name} is not for DuckDB {duckdb.__version__}")
    try:
        connection.execute(f"LOAD '{path}'")
    except duckdb.Error as error:
        raise ExtensionMissingError(f"DuckDB cannot load its extension {name}: {error}") from error
