"""Plain Lance with Pennon as its `namespace_client`, and on the locations that Pennon gives."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from pennon import DirectoryNamespace
from tests.interop.peers import values
from tests.servers import CountingS3
from tests.support import (
    MODES,
    create_namespace,
    create_table,
    declare_table,
    describe_table,
    fails,
    ipc,
    list_tables,
    remove_table,
)

pytestmark = pytest.mark.interop


CASES = [(mode, table_id) for mode in MODES for table_id in (["t"], ["n", "t"]) if (mode, len(table_id)) != ("v1", 2)]


@pytest.fixture(params=CASES, ids=[f"{mode}-{'.'.join(table_id)}" for mode, table_id in CASES])
def case(request):
    return request.param


@pytest.fixture
def mode(case):
    return case[0]


@pytest.fixture
def table_id(case, ours):
    """Return the id of a new table: at the root, or in a namespace."""
    if len(case[1]) > 1:
        create_namespace(ours, *case[1][:-1])
    return case[1]


def read(ns, table_id, **options):
    return lance.dataset(namespace_client=ns, table_id=table_id, **options).to_table()["x"].to_pylist()


def test_a_table_is_written_and_read_through_the_namespace(ours, reference, table_id):
    lance.write_dataset(pa.table({"x": [1, 2]}), namespace_client=ours, table_id=table_id, mode="create")
    lance.write_dataset(pa.table({"x": [3]}), namespace_client=ours, table_id=table_id, mode="append")
    assert read(ours, table_id) == values(ours, *table_id) == values(reference, *table_id) == [1, 2, 3]
    lance.write_dataset(pa.table({"x": [9]}), namespace_client=ours, table_id=table_id, mode="overwrite")
    assert read(ours, table_id) == [9]
    assert read(ours, table_id, version=2) == [1, 2, 3]
    assert describe_table(ours, *table_id, check_declared=True).is_only_declared is False
    assert list_tables(ours, *table_id[:-1], include_declared=False) == ["t"]


def test_a_table_written_through_the_reference_is_read_through_pennon(ours, reference, table_id):
    lance.write_dataset(pa.table({"x": [1]}), namespace_client=reference, table_id=table_id, mode="create")
    lance.write_dataset(pa.table({"x": [2]}), namespace_client=ours, table_id=table_id, mode="append")
    assert read(ours, table_id) == read(reference, table_id) == [1, 2]


def test_create_mode_does_not_overwrite_an_existing_table(ours, table_id):
    create_table(ours, *table_id, data=ipc({"x": [1]}))
    with fails(5):
        lance.write_dataset(pa.table({"x": [2]}), namespace_client=ours, table_id=table_id, mode="create")
    assert read(ours, table_id) == [1]


def test_a_missing_table_is_reported_by_its_code(ours, table_id):
    with fails(4):
        lance.dataset(namespace_client=ours, table_id=table_id)
    with fails(4):
        lance.write_dataset(pa.table({"x": [2]}), namespace_client=ours, table_id=table_id, mode="append")


def test_a_transaction_is_committed_through_the_namespace(ours, table_id):
    create_table(ours, *table_id, data=ipc({"x": [1]}))
    dataset = lance.dataset(namespace_client=ours, table_id=table_id)
    more = write_fragments(pa.table({"x": [2]}), dataset, mode="append")
    LanceDataset.commit(
        dataset.uri,
        LanceOperation.Append(more),
        read_version=dataset.version,
        namespace_client=ours,
        table_id=table_id,
    )
    assert read(ours, table_id) == [1, 2]


def test_the_first_version_of_a_declared_table_is_committed_through_the_namespace(ours, table_id):
    where = declare_table(ours, *table_id).location
    rows = pa.table({"x": [1]})
    fragments = write_fragments(rows, where, schema=rows.schema)
    LanceDataset.commit(
        where, LanceOperation.Overwrite(rows.schema, fragments), namespace_client=ours, table_id=table_id
    )
    assert read(ours, table_id) == [1]
    assert describe_table(ours, *table_id, check_declared=True).is_only_declared is False


def test_open_dataset_stays_valid_and_sees_changes_after_checkout(ours, table_id):
    create_table(ours, *table_id, data=ipc({"x": [1]}))
    dataset = lance.dataset(namespace_client=ours, table_id=table_id)
    lance.write_dataset(pa.table({"x": [2]}), describe_table(ours, *table_id).location, mode="append")
    assert dataset.to_table()["x"].to_pylist() == [1]
    dataset.checkout_latest()
    assert dataset.to_table()["x"].to_pylist() == [1, 2]


def test_branches_tags_and_indexes_are_plain_lance(ours, table_id):
    create_table(ours, *table_id, data=ipc({"x": list(range(100))}))
    dataset = lance.dataset(namespace_client=ours, table_id=table_id)
    dataset.tags.create("first", 1)
    dataset.create_scalar_index("x", "BTREE")
    assert lance.dataset(namespace_client=ours, table_id=table_id).to_table(filter="x = 7").num_rows == 1
    assert describe_table(ours, *table_id, tag="first").location == describe_table(ours, *table_id).location
    remove_table(ours, *table_id)
    with fails(4):
        describe_table(ours, *table_id)


@pytest.mark.s3
@pytest.mark.parametrize("mode", list(MODES))
def test_on_s3_a_table_is_written_and_read_through_the_namespace(mode):
    with (
        CountingS3() as server,
        DirectoryNamespace(
            root=server.endpoint.uri("root"),
            **server.endpoint.properties(),
            **MODES[mode],
            vend_input_storage_options="true",
        ) as ns,
    ):
        lance.write_dataset(pa.table({"x": [1]}), namespace_client=ns, table_id=["a b"], mode="create")
        lance.write_dataset(pa.table({"x": [2]}), namespace_client=ns, table_id=["a b"], mode="append")
        assert read(ns, ["a b"]) == [1, 2]
