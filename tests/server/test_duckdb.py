"""DuckDB as a client, with the iceberg extension out of wheels: it attaches, lists, describes, and cannot scan."""

from __future__ import annotations

import duckdb
import pytest

from tests.duckdb_extensions import ExtensionMissingError, load_extension
from tests.support import create_namespace, create_table, ipc, list_namespaces


@pytest.fixture
def attached(server, tmp_path):
    """Attach the server as the database `lake`."""
    config = {"extension_directory": str(tmp_path / "extensions"), "autoinstall_known_extensions": "false"}
    with duckdb.connect(config=config) as connection:
        for name in ("avro", "httpfs", "iceberg"):
            try:
                load_extension(connection, name)
            except ExtensionMissingError as error:
                pytest.skip(str(error))
        connection.execute(f"ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '{server.uri}', AUTHORIZATION_TYPE 'none')")
        yield connection


def test_tables_are_listed_and_described(attached, catalog, space, events):
    create_table(catalog, space, "vectors", data=ipc({"x": [1], "v": [[0.5, 1.5]]}))
    attached.execute(f"FROM iceberg_table_properties(lake.{space}.{events})")
    attached.execute(f"FROM iceberg_table_properties(lake.{space}.vectors)")
    # DuckDB knows the columns of a table that it has loaded; DESCRIBE would prepare a scan.
    listed = attached.execute(
        "SELECT database, name, column_names, column_types FROM (SHOW ALL TABLES) WHERE schema = ?", [space]
    )
    assert sorted(listed.fetchall()) == [
        ("lake", events, ["id", "name", "double"], ["BIGINT", "VARCHAR", "BIGINT"]),
        ("lake", "vectors", ["x", "v"], ["BIGINT", "DOUBLE[]"]),
    ]


def test_properties_are_shown(attached, space, events):
    found = dict(attached.execute(f"FROM iceberg_table_properties(lake.{space}.{events})").fetchall())
    assert (found["k"], found["table_type"]) == ("v", "lance")


@pytest.mark.parametrize(
    "query", ["SELECT * FROM {}", "SELECT count(*) FROM {}", "DESCRIBE {}", "INSERT INTO {} VALUES (1, 'a', 2)"]
)
def test_a_scan_raises(attached, space, events, query):
    with pytest.raises(duckdb.Error, match="Avro"):
        attached.execute(query.format(f"lake.{space}.{events}")).fetchall()


def test_a_missing_table_is_missing(attached, catalog, space):
    create_namespace(catalog, space, "inner")
    with pytest.raises(duckdb.Error, match="does not exist"):
        attached.execute(f"FROM lake.{space}.none")


def test_schemas_come_and_go_and_tables_cannot_be_staged(attached, catalog, space):
    attached.execute(f"CREATE SCHEMA lake.{space}_more")
    with pytest.raises(duckdb.Error, match="cannot be staged"):
        attached.execute(f"CREATE TABLE lake.{space}_more.t (a INTEGER)")
    attached.execute(f"DROP SCHEMA lake.{space}_more")
    assert f"{space}_more" not in list_namespaces(catalog)
