"""What went wrong on servers that nobody here wrote: SeaweedFS's catalog and Nessie."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation
from lance.fragment import write_fragments
from lance_namespace import CountTableRowsRequest, ListTableVersionsRequest
from lance_namespace.errors import LanceNamespaceError
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from pennon import IcebergNamespace, TableCommit
from tests.iceberg.irc_servers import is_there
from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_table,
    drop_namespace,
    drop_table,
    fails,
    ipc,
    list_namespaces,
    list_tables,
    register_table,
    rename_table,
)

SERVERS = ["seaweed", "nessie"]
on_seaweed = pytest.mark.parametrize("irc", ["seaweed"], indirect=True)


def rows(catalog: IcebergNamespace, *names: str) -> int:
    return catalog.count_table_rows(CountTableRowsRequest(id=list(names))).count


def written_by_lance(catalog: IcebergNamespace, space: str, name: str, *values: int) -> None:
    lance.write_dataset(pa.table({"x": list(values)}), namespace_client=catalog, table_id=[space, name], mode="create")


@pytest.fixture
def foreign(irc, space):
    """Create an Iceberg table with rows, by another client."""
    bucket = irc.bucket
    properties = {
        "uri": irc.uri,
        **{key: value for key, value in irc.properties.items() if not key.startswith("storage.")},
        "s3.endpoint": bucket.url,
        "s3.access-key-id": bucket.access_key,
        "s3.secret-access-key": bucket.secret_key,
        "s3.region": bucket.region,
        "oauth2-server-uri": f"{irc.uri}/v1/oauth/tokens",
        "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
    }
    other = RestCatalog("other", **properties)
    table = other.create_table((space, "foreign"), Schema(NestedField(1, "n", LongType(), required=False)))
    table.append(pa.table({"n": pa.array([1, 2, 3], pa.int64())}))

    def read() -> list[int]:
        return other.load_table((space, "foreign")).scan().to_arrow()["n"].to_pylist()

    return read


def test_an_existing_table_survives_those_who_create_it_again(catalog, space):
    location = create_table(catalog, space, "t").location
    with fails(5, f"{space}.t"):
        declare_table(catalog, space, "t")
    with fails(5, f"{space}.t"):
        written_by_lance(catalog, space, "t", 9)
    with fails(5, f"{space}.t"):
        create_table(catalog, space, "t")
    assert rows(catalog, space, "t") == 3
    assert describe_table(catalog, space, "t").location == location


def test_a_foreign_table_stays_as_it_is(catalog, space, foreign):
    assert list_tables(catalog, space) == []
    with fails(5, f"{space}.foreign"):
        declare_table(catalog, space, "foreign")
    with fails(5, f"{space}.foreign"):
        written_by_lance(catalog, space, "foreign", 9)
    for mode in ("create", "exist_ok", "overwrite"):
        with fails(5, f"{space}.foreign"):
            create_table(catalog, space, "foreign", mode=mode)
    for ask in (drop_table, deregister_table, describe_table):
        with fails(4):
            ask(catalog, space, "foreign")
    with fails(3, "foreign"):
        drop_namespace(catalog, space, behavior="cascade")
    assert foreign() == [1, 2, 3]


@pytest.mark.concurrency
@pytest.mark.parametrize("how", ["declare", "create", "lance"])
def test_of_three_creators_exactly_one_wins_and_has_its_table(irc, connect, catalog, space, how):
    clients = [connect(irc.uri, managed_by=catalog._properties["managed_by"]) for _ in range(3)]
    for number in range(4):
        name, begin = f"t{number}", threading.Barrier(3)

        def create(client: int, name: str = name, begin: threading.Barrier = begin) -> int | None:
            begin.wait()
            try:
                if how == "declare":
                    declare_table(clients[client], space, name, properties={"client": str(client)})
                elif how == "create":
                    create_table(clients[client], space, name, data=ipc({"x": [client]}))
                else:
                    written_by_lance(clients[client], space, name, client)
            except LanceNamespaceError as error:
                return int(error.code)
            return None

        with ThreadPoolExecutor(3) as pool:
            codes = list(pool.map(create, range(3)))
        assert sorted(code for code in codes if code is not None) == [5, 5]
        winner = codes.index(None)
        if how == "declare":
            assert describe_table(catalog, space, name).properties["client"] == str(winner)
        else:
            assert catalog._open_table((space, name)).to_table()["x"].to_pylist() == [winner]


def test_a_dropped_table_is_listed_restored_and_purged(catalog, space):
    location = create_table(catalog, space, "t").location
    drop_table(catalog, space, "t")
    assert list_tables(catalog, space) == []
    assert "pennon_trash" not in list_namespaces(catalog)
    ((dropped,), _) = catalog.list_dropped_tables([space])
    assert (dropped.id, is_there(catalog, location)) == ([space, "t"], True)
    catalog.undrop_table([space, "t"])
    assert rows(catalog, space, "t") == 3
    drop_table(catalog, space, "t")
    create_table(catalog, space, "t", data=ipc({"x": [1]}))
    assert [one.error for one in catalog.purge_table([space, "t"], force=True).tables] == [None]
    assert catalog.list_dropped_tables([space]) == ([], None)
    assert rows(catalog, space, "t") == 1


def test_missing_namespace_raises_not_found(catalog, space):
    for ask in (list_tables, list_namespaces):
        with fails(1, "none"):
            ask(catalog, "none")
    with fails(1, "none"):
        declare_table(catalog, "none", "t")
    assert list_tables(catalog, space) == []


@on_seaweed
def test_deregistering_is_refused_where_the_server_deletes_data(catalog, space, client_root):
    location = create_table(catalog, space, "t").location
    with fails(0, "Copy the data first"):
        deregister_table(catalog, space, "t")
    with fails(0, "Copy the data first"):
        register_table(catalog, space, "t", location=location, mode="overwrite")
    assert rows(catalog, space, "t") == 3
    given = f"{client_root}/given"
    lance.write_dataset(pa.table({"x": [1, 2]}), given)
    register_table(catalog, space, "a", location=given)
    register_table(catalog, space, "b", location=given)
    for name in ("a", "b"):
        with fails(0, "Copy the data first"):
            drop_table(catalog, space, name, purge="true")
    assert lance.dataset(given).count_rows() == 2


@on_seaweed
def test_a_namespace_stays_while_the_server_would_delete_data_with_it(irc, connect, catalog, space, managed_by):
    rootless = connect(irc.uri, root=None, managed_by=managed_by)
    location = create_table(rootless, space, "t").location
    other = f"o{uuid.uuid4().hex[:12]}"
    create_namespace(rootless, other)
    for behavior in ("restrict", "cascade"):
        with fails(3, space):
            drop_namespace(rootless, space, behavior=behavior)
    drop_table(rootless, space, "t")
    with fails(3, "(dropped)"):
        drop_namespace(rootless, space)
    rootless.undrop_table([space, "t"])
    rename_table(rootless, space, "t", to="t", into=[other])
    with fails(3, f"{other}.t"):
        drop_namespace(catalog, space)
    assert rows(rootless, other, "t") == 3
    drop_table(rootless, other, "t", purge="true")
    drop_namespace(rootless, space)
    assert not is_there(rootless, location)


@on_seaweed
def test_a_table_that_may_not_be_written_is_permission_denied(irc, weed, connect, catalog, space):
    create_table(catalog, space, "t")
    keys = {"storage.aws_access_key_id": weed.reader[0], "storage.aws_secret_access_key": weed.reader[1]}
    reader = connect(irc.uri, managed_by=catalog._properties["managed_by"], **keys)
    with fails(15):
        reader.insert_into_table({"id": [space, "t"]}, ipc({"x": [4]}))
    with fails(15):
        create_table(reader, space, "u")
    with fails(15):
        declare_table(connect(irc.uri, credential=":".join(weed.reader)), space, "u")
    assert rows(catalog, space, "t") == 3
    assert "u" not in list_tables(catalog, space, include_declared=False)


@pytest.mark.concurrency
def test_appends_by_several_writers_are_complete_and_dense(irc, connect, catalog, space, managed_by):
    create_table(catalog, space, "t", data=ipc({"x": [-1]}))
    writers, commits = 4, 4
    clients = [connect(irc.uri, managed_by=managed_by) for _ in range(writers)]

    def write(writer: int) -> None:
        for number in range(commits):
            data = pa.table({"x": [writer * 100 + number]})
            lance.write_dataset(data, namespace_client=clients[writer], table_id=[space, "t"], mode="append")

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    require_complete(catalog, space, "t", writers, commits)


def require_complete(catalog: IcebergNamespace, space: str, name: str, writers: int, commits: int) -> None:
    wanted = sorted([-1, *(writer * 100 + number for writer in range(writers) for number in range(commits))])
    assert sorted(catalog._open_table((space, name)).to_table()["x"].to_pylist()) == wanted
    versions = catalog.list_table_versions(ListTableVersionsRequest(id=[space, name])).versions
    assert [one.version for one in versions] == list(range(writers * commits + 1, 0, -1))


@pytest.mark.concurrency
@pytest.mark.parametrize("managed_by", ["impl"])
def test_commits_of_two_tables_by_several_writers_are_complete_and_dense(irc, connect, catalog, space, managed_by):
    for name in ("a", "b"):
        create_table(catalog, space, name, data=ipc({"x": [-1]}))
    writers, commits = 3, 3
    clients = [connect(irc.uri, managed_by=managed_by) for _ in range(writers)]

    def write(writer: int) -> None:
        client = clients[writer]
        for number in range(commits):
            changes = []
            for name in ("a", "b"):
                entry = client._catalog.table((space, name))
                fragments = write_fragments(pa.table({"x": [writer * 100 + number]}), client._location(entry))
                changes.append(TableCommit([space, name], LanceOperation.Append(fragments), entry.version))
            client.commit_tables(changes)

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    for name in ("a", "b"):
        require_complete(catalog, space, name, writers, commits)
