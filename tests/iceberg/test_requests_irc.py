"""How many requests to the server each operation costs, as docs/reference/iceberg.md says."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

from tests.support import (
    create_table,
    declare_table,
    deregister_table,
    describe_table,
    drop_table,
    ipc,
    list_tables,
    rename_table,
    table_exists,
)


@pytest.fixture
def counted(connect, lossy, managed_by, catalog, space):
    """Open the server through a proxy that counts; what is asked once for a connection is asked already."""
    del catalog
    through = connect(lossy.uri, managed_by=managed_by)
    declare_table(through, space, "first")

    def count(call) -> list[str]:
        lossy.seen.clear()
        call()
        return [one.partition(" ")[0] for one in lossy.seen]

    return through, count


def append(catalog, space: str) -> None:
    lance.write_dataset(pa.table({"x": [4]}), namespace_client=catalog, table_id=[space, "t"], mode="append")


def test_requests(counted, irc, space, managed_by):
    catalog, count = counted
    is_impl = managed_by == "impl"
    assert count(lambda: declare_table(catalog, space, "d")) == ["POST"]
    assert len(count(lambda: create_table(catalog, space, "t"))) == (7 if is_impl else 3)
    assert count(lambda: describe_table(catalog, space, "t")) == ["GET"]
    assert count(lambda: table_exists(catalog, space, "t")) == ["GET"]
    assert count(lambda: append(catalog, space)) == (["GET", "GET", "GET", "POST"] if is_impl else ["GET"])
    # Our own server has Lance tables only; on others each of the three is looked at.
    assert count(lambda: list_tables(catalog, space)) == ["GET"] * (1 if irc.root else 4)
    catalog.count_table_rows({"id": [space, "t"]})
    assert count(lambda: catalog.count_table_rows({"id": [space, "t"]})) == ["GET"]
    insert = count(lambda: catalog.insert_into_table({"id": [space, "t"]}, ipc({"x": [5]})))
    assert insert == (["GET", "GET", "POST"] if is_impl else ["GET"])
    assert count(lambda: rename_table(catalog, space, "t", to="u")) == ["GET", "POST"]
    drop_table(catalog, space, "d")
    # Our own server keeps what is dropped; on others it is marked and renamed.
    assert count(lambda: drop_table(catalog, space, "u")) == (
        ["GET", "DELETE"] if irc.root else ["GET", "POST", "POST"]
    )
    assert count(lambda: deregister_table(catalog, space, "first")) == ["GET", "DELETE"]
