"""The data and queries of TPC-H and TPC-DS, which DuckDB's extensions generate."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb

from tests.duckdb_extensions import load_extension

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TPCH, TPCDS = "tpch", "tpcds"
_GENERATORS = {TPCH: "dbgen", TPCDS: "dsdgen"}


def generate(name: str, scale: float, directory: Path) -> dict[str, Path]:
    """Write the tables of a benchmark as Parquet files; return their paths by the names of the tables.

    Raises ExtensionMissingError if the extension cannot be loaded.
    """
    with _connect(name) as connection:
        connection.execute(f"CALL {_GENERATORS[name]}(sf={scale})")
        paths = {table: directory / f"{table}.parquet" for (table,) in connection.execute("SHOW TABLES").fetchall()}
        for table, path in paths.items():
            connection.execute(f"COPY {table} TO '{path}' (FORMAT parquet)")
    return paths


def queries(name: str, *, limits: bool = False) -> dict[str, str]:
    """Return the queries of a benchmark in the SQL of Spark, by their numbers.

    Without `limits` they return all rows: which of several equal rows a LIMIT keeps is not defined.
    """
    import sqlglot

    with _connect(name) as connection:
        rows = connection.execute(f"FROM {name}_queries()").fetchall()
    translated = {}
    for number, text in rows:
        tree = sqlglot.parse_one(text.strip().rstrip(";"), read="duckdb")
        if not limits:
            tree.set("limit", None)
        translated[f"q{number}"] = tree.sql(dialect="spark")
    return translated


@contextmanager
def _connect(name: str) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        load_extension(connection, name)
        yield connection
