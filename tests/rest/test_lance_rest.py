"""Lance and the rows of tables through the client: commits, streams, the shared operations."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor

import lance
import pyarrow as pa
import pytest

from pennon import NewTable, TableCommit
from pennon.errors import InvalidInputError
from tests.support import create_namespace, create_table, declare_table, describe_table, fails, ipc, list_tables

ROWS = pa.table({"id": list(range(1000)), "name": [f"n{number}" for number in range(1000)]})


@pytest.fixture
def managed(root, open_namespace):
    """Return a client of a catalog that manages versions."""
    client = open_namespace(root, "v2")
    client._directory.enable_table_version_management()
    create_namespace(client, "a")
    return client


@pytest.fixture
def plain(root, open_namespace):
    """Return a client of a catalog whose tables' files decide about versions."""
    client = open_namespace(root, "v2")
    create_namespace(client, "a")
    return client


@pytest.fixture(params=["managed", "plain"])
def client(request):
    """Return a client of each kind of catalog."""
    return request.getfixturevalue(request.param)


def test_lance_writes_and_opens_tables_through_the_client(client):
    where = {"namespace_client": client, "table_id": ["a", "t"]}
    lance.write_dataset(ROWS, mode="create", **where)
    lance.write_dataset(ROWS, mode="append", **where)
    dataset = lance.dataset(**where)
    assert dataset.count_rows() == 2000
    dataset.delete("id >= 10")
    assert client.count_table_rows({"id": ["a", "t"]}).count == 20
    assert client._directory.count_table_rows({"id": ["a", "t"]}).count == 20


def test_versions_that_lance_commits_are_those_of_the_server(managed):
    where = {"namespace_client": managed, "table_id": ["a", "t"]}
    lance.write_dataset(ROWS, mode="create", **where)
    assert describe_table(managed, "a", "t").managed_versioning
    lance.write_dataset(ROWS, mode="append", **where)
    listed = managed.list_table_versions({"id": ["a", "t"]}).versions
    assert [one.version for one in listed] == [2, 1]


def test_concurrent_writers_lose_nothing(managed):
    create_table(managed, "a", "t", data=ipc({"id": [-1]}))

    def append(number: int) -> None:
        rows = pa.table({"id": [number]})
        lance.write_dataset(rows, mode="append", namespace_client=managed, table_id=["a", "t"])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(12)))
    found = lance.dataset(namespace_client=managed, table_id=["a", "t"]).to_table()
    assert sorted(found["id"].to_pylist()) == list(range(-1, 12))


def prepare(client, table: str, value: int) -> TableCommit:
    """Write a row of a table without committing it."""
    location = client.describe_table({"id": ["a", table]}).location
    fragments = lance.fragment.write_fragments(pa.table({"id": [value]}), location)
    version = client.describe_table_version({"id": ["a", table]}).version.version
    return TableCommit(["a", table], lance.LanceOperation.Append(fragments), version)


def ids(client, table: str) -> list[int]:
    return sorted(lance.dataset(namespace_client=client, table_id=["a", table]).to_table()["id"].to_pylist())


def test_changes_of_several_tables_are_published_together(managed):
    for table in ("t", "u"):
        create_table(managed, "a", table, data=ipc({"id": [0]}))
    changes = [prepare(managed, table, 1) for table in ("t", "u")]
    managed.insert_into_table({"id": ["a", "t"]}, ipc({"id": [7]}))
    staged: list[dict] = []
    done = managed.commit_tables(changes, staged.append)
    assert done == staged[0] == {("a", "t"): 3, ("a", "u"): 2}
    assert (ids(managed, "t"), ids(managed, "u")) == ([0, 1, 7], [0, 1])
    assert managed.latest_table_versions([["a", "t"], ["a", "u"]]) == [3, 2]


def test_one_change_that_cannot_be_made_keeps_all_back(managed):
    for table in ("t", "u"):
        create_table(managed, "a", table, data=ipc({"id": [0]}))

    def refuse(_) -> None:
        managed.insert_into_table({"id": ["a", "u"]}, ipc({"id": [7]}))
        raise InvalidInputError("no")

    with fails(13, "no"):
        managed.commit_tables([prepare(managed, table, 1) for table in ("t", "u")], refuse)
    changes = [prepare(managed, table, 1) for table in ("t", "u")]
    managed.insert_into_table({"id": ["a", "u"], "mode": "overwrite"}, ipc({"id": [8]}))
    with fails(14):
        managed.commit_tables(changes)
    assert (ids(managed, "t"), ids(managed, "u")) == ([0], [8])


def test_a_commit_by_others_in_between_is_rebased_on(managed):
    for table in ("t", "u"):
        create_table(managed, "a", table, data=ipc({"id": [0]}))
    attempts: list[dict] = []

    def interfere(versions) -> None:
        attempts.append(versions)
        if len(attempts) == 1:
            managed.insert_into_table({"id": ["a", "u"]}, ipc({"id": [7]}))

    managed.commit_tables([prepare(managed, table, 1) for table in ("t", "u")], interfere)
    assert [one["a", "u"] for one in attempts] == [2, 3]
    assert (ids(managed, "t"), ids(managed, "u")) == ([0, 1], [0, 1, 7])


def written(client, name: str, **properties: str) -> NewTable:
    """Write a table that is not in the catalog yet."""
    location = client.new_table_location(["a", name])
    lance.write_dataset(pa.table({"id": [5]}), location)
    return NewTable(["a", name], location, properties or None)


def test_new_tables_are_published_with_changes_of_others(managed):
    create_table(managed, "a", "t", data=ipc({"id": [0]}))
    seen: list[dict] = []

    def interfere(versions) -> None:
        seen.append(versions)
        assert list_tables(managed, "a") == ["t"]
        if len(seen) == 1:
            managed.insert_into_table({"id": ["a", "t"]}, ipc({"id": [7]}))

    parts = [written(managed, "new", owner="tests"), prepare(managed, "t", 1)]
    assert managed.commit_tables(parts, interfere) == {("a", "t"): 3, ("a", "new"): 1}
    assert len(seen) == 2
    assert (ids(managed, "t"), ids(managed, "new")) == ([0, 1, 7], [5])
    assert managed.describe_table({"id": ["a", "new"]}).properties["owner"] == "tests"


def test_new_tables_fill_declared_ones_and_are_all_kept_back_if_a_name_is_taken(managed):
    create_table(managed, "a", "t", data=ipc({"id": [0]}))
    parts = [written(managed, name) for name in ("first", "second")]
    create_table(managed, "a", "second", data=ipc({"id": [8]}))
    with fails(5, "second"):
        managed.commit_tables([*parts, prepare(managed, "t", 1)])
    assert (ids(managed, "t"), ids(managed, "second")) == ([0], [8])
    assert list_tables(managed, "a") == ["second", "t"]
    filling = written(managed, "declared")
    location = declare_table(managed, "a", "declared").location
    assert managed.commit_tables([filling, parts[0]]).keys() == {("a", "declared"), ("a", "first")}
    assert (ids(managed, "declared"), ids(managed, "first")) == ([5], [5])
    assert managed.describe_table({"id": ["a", "declared"]}).location == location


def test_common_commits_need_managed_versions(client):
    create_table(client, "a", "t", data=ipc({"id": [0]}))
    if client.describe_table({"id": ["a", "t"]}).managed_versioning:
        client.require_common_commits([["a", "t"], ["a", "new"]])
        return
    with fails(0):
        client.require_common_commits([["a", "t"]])
    with fails(0):
        client.commit_tables([written(client, "new")])


def as_file(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


@pytest.mark.parametrize(
    "make",
    [
        ipc,
        as_file,
        lambda rows: memoryview(ipc(rows)),
        lambda rows: io.BytesIO(ipc(rows)),
        lambda rows: io.BytesIO(as_file(rows)),
        lambda rows: rows.to_reader(),
        lambda rows: rows,
    ],
    ids=["bytes", "file format", "memoryview", "open stream", "open file format", "reader", "table"],
)
def test_rows_are_taken_in_every_form(plain, make):
    plain.create_table({"id": ["a", "t"]}, make(ROWS))
    plain.insert_into_table({"id": ["a", "t"]}, make(ROWS))
    done = plain.merge_insert_into_table(
        {"id": ["a", "t"], "on": "id", "when_matched_update_all": True, "when_not_matched_insert_all": True},
        make(pa.table({"id": [5000], "name": ["new"]})),
    )
    assert done.num_inserted_rows == 1
    assert plain.count_table_rows({"id": ["a", "t"]}).count == 2001


@pytest.mark.parametrize("data", [None, 5, b"", b"nonsense", io.BytesIO(b"nonsense")])
def test_data_that_is_no_arrow_data_is_refused(plain, data):
    with fails(13):
        plain.create_table({"id": ["a", "t"]}, data)


def test_results_are_read_as_a_stream_and_as_a_file(plain):
    create_table(plain, "a", "t", data=ipc(ROWS))
    query = {"id": ["a", "t"], "k": 10_000, "vector": {}, "filter": "id < 700"}
    batches = plain.query_batches(query).read_all()
    whole = pa.ipc.open_file(plain.query_table(query).data).read_all()
    assert batches["id"].to_pylist() == whole["id"].to_pylist() == list(range(700))


def test_a_reader_that_is_left_keeps_the_client_usable(plain):
    create_table(plain, "a", "t", data=ipc(ROWS))
    reader = plain.query_batches({"id": ["a", "t"], "k": 10_000, "vector": {}})
    reader.read_next_batch()
    reader.close()
    assert plain.count_table_rows({"id": ["a", "t"]}).count == 1000


def test_plans_metadata_indexes_tags_and_branches(plain):
    create_table(plain, "a", "t", data=ipc(ROWS))
    table = {"id": ["a", "t"]}
    query = {**table, "k": 5, "vector": {}, "filter": "id = 3"}
    assert "Lance" in plain.explain_table_query_plan({**table, "query": query})
    assert "Lance" in plain.analyze_table_query_plan(query)
    assert plain.update_table_schema_metadata({**table, "metadata": {"k": "v"}}).metadata == {"k": "v"}
    plain.create_table_scalar_index({**table, "column": "id", "index_type": "BTREE", "name": "by id"})
    stats = plain.describe_table_index_stats({**table, "index_name": "by id"})
    assert stats.num_indexed_rows == 1000
    assert [one.index_name for one in plain.list_table_indices(table).indexes] == ["by id"]
    plain.drop_table_index({**table, "index_name": "by id"})
    plain.create_table_tag({**table, "tag": "first", "version": 1})
    assert plain.get_table_tag_version({**table, "tag": "first"}).version == 1
    plain.create_table_branch({**table, "name": "b"})
    assert list(plain.list_table_branches(table).branches) == ["b"]
    assert plain.alter_table_add_columns({**table, "new_columns": [{"name": "n", "expression": "id + 1"}]}).version
    plain.update_table({**table, "updates": [["n", "0"]], "predicate": "id < 10"})
    assert plain.count_table_rows({**table, "predicate": "n = 0"}).count == 10
    plain.delete_from_table({**table, "predicate": "n = 0"})
    assert plain.get_table_stats(table).num_rows == 990
    plain.restore_table({**table, "version": 1})
    assert plain.count_table_rows(table).count == 1000
