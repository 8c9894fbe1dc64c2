"""DuckDB as a client, with the lance extension out of wheels: it attaches a namespace as a database."""

from __future__ import annotations

import duckdb
import pytest

from tests.duckdb_extensions import ExtensionMissingError, load_extension
from tests.support import create_table, ipc, list_tables

pytestmark = pytest.mark.interop
NEAR = "[1.0, 0.1]::FLOAT[2]"
# The extension writes versions into the table's directory, also if the catalog manages them.
writes_files = pytest.mark.parametrize("server", ["plain"], indirect=True)


@pytest.fixture
def attached(server, catalog, space, fruit, tmp_path):
    """Attach a namespace with the table `fruit` as the database `lake`."""
    create_table(catalog, space, "fruit", data=ipc(fruit))
    config = {"extension_directory": str(tmp_path / "extensions"), "autoinstall_known_extensions": "false"}
    with duckdb.connect(config=config) as connection:
        try:
            load_extension(connection, "lance")
        except ExtensionMissingError as error:
            pytest.skip(str(error))
        connection.execute(f"ATTACH '{space}' AS lake (TYPE lance, ENDPOINT '{server.lance}')")
        yield connection


def rows(connection, query: str) -> list[tuple]:
    return connection.execute(query).fetchall()


def test_tables_are_listed_and_described(attached, catalog, space):
    create_table(catalog, space, "more", data=ipc({"x": [1]}))
    assert rows(attached, "SHOW TABLES FROM lake.main") == [("fruit",), ("more",)]
    columns = "SELECT name, column_names, column_types FROM (SHOW ALL TABLES) WHERE database = 'lake' ORDER BY name"
    assert rows(attached, columns) == [
        ("fruit", ["id", "text", "vector"], ["BIGINT", "VARCHAR", "FLOAT[2]"]),
        ("more", ["x"], ["BIGINT"]),
    ]


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("", [1, 2, 3]),
        ("WHERE id > 1 AND text LIKE 'blue%'", [3]),
        ("WHERE id IN (1, 3) OR text IS NULL", [1, 3]),
        ("WHERE starts_with(text, 'green')", [2]),
        ("ORDER BY id DESC LIMIT 1 OFFSET 1", [2]),
        ("WHERE id > 3", []),
    ],
)
def test_rows_are_selected(attached, rest, expected):
    assert [row[0] for row in rows(attached, f"FROM lake.main.fruit SELECT id {rest}")] == expected


def test_rows_are_joined_and_counted(attached):
    query = "SELECT count(*), sum(a.id) FROM lake.main.fruit a JOIN lake.main.fruit b ON a.id = b.id - 1"
    assert rows(attached, query) == [(2, 3)]


def test_a_vector_search_returns_the_nearest_rows(attached):
    search = f"lance_vector_search('lake.main.fruit', 'vector', {NEAR}, k = 2)"
    assert [row[0] for row in rows(attached, f"FROM {search} SELECT id ORDER BY _distance")] == [1, 3]
    search = f"lance_vector_search('lake.main.fruit', 'vector', {NEAR}, k = 2, prefilter = true, filter = 'id > 1')"
    assert [row[0] for row in rows(attached, f"FROM {search} SELECT id ORDER BY _distance")] == [3, 2]


def test_full_text_and_hybrid_search_find_words(attached, catalog, space):
    catalog._open_table((space, "fruit")).create_scalar_index("text", "INVERTED")
    assert rows(attached, "SELECT id FROM lance_fts('lake.main.fruit', 'text', 'pear', k = 2)") == [(2,)]
    search = f"lance_hybrid_search('lake.main.fruit', 'vector', {NEAR}, 'text', 'apple', k = 1)"
    assert rows(attached, f"FROM {search} SELECT id") == [(1,)]


@writes_files
def test_rows_are_inserted_updated_and_deleted(attached, catalog, space):
    attached.execute("INSERT INTO lake.main.fruit VALUES (4, 'black cherry', [0.0, 0.0])")
    attached.execute("UPDATE lake.main.fruit SET text = 'yellow pear' WHERE id = 2")
    attached.execute("DELETE FROM lake.main.fruit WHERE id = 1")
    found = catalog._open_table((space, "fruit")).to_table(columns=["id", "text"]).sort_by("id").to_pydict()
    assert found == {"id": [2, 3, 4], "text": ["yellow pear", "blue plum", "black cherry"]}


@writes_files
def test_tables_are_created_in_the_namespace(attached, catalog, space):
    # The extension creates the table of CREATE TABLE AS without its rows, also on pylance's own server.
    attached.execute("CREATE TABLE lake.main.made (a BIGINT)")
    assert list_tables(catalog, space) == ["fruit", "made"]
    assert catalog._open_table((space, "made")).to_table().to_pydict() == {"a": []}


def test_the_root_is_attached_by_the_delimiter(attached, server, catalog, space, fruit):
    create_table(catalog, f"{space}_at_root", data=ipc(fruit))
    attached.execute(f"ATTACH '$' AS root (TYPE lance, ENDPOINT '{server.lance}')")
    assert rows(attached, f"FROM root.main.{space}_at_root SELECT id WHERE id < 3") == [(1,), (2,)]
    attached.execute(f"DROP TABLE root.main.{space}_at_root")
    assert f"{space}_at_root" not in list_tables(catalog)


def test_a_missing_table_is_missing(attached):
    with pytest.raises(duckdb.Error, match="not found"):
        attached.execute("FROM lake.main.nothing")
