"""The data of new tables: Arrow IPC in both forms, and everything that is not."""

from __future__ import annotations

import decimal
import struct

import lance
import pyarrow as pa
import pytest

from tests.contract.disk import contents
from tests.support import create_table, describe_table, fails, ipc, list_tables


def ipc_file(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def with_bad_offsets() -> bytes:
    good = bytearray(ipc({"s": ["aaaa", "bbbb", "cccc"]}))
    place = good.index(struct.pack("<4i", 0, 4, 8, 12))
    good[place + 4 : place + 8] = struct.pack("<i", 1_000_000)
    return bytes(good)


def with_bad_text() -> bytes:
    return ipc({"s": ["aaaa"]}).replace(b"aaaa", b"\xff\xfe\xff\xfe")


def with_bad_dictionary() -> bytes:
    indices, words = pa.array([0, 5], pa.int8()), pa.array(["a"])
    return ipc(pa.table({"s": pa.DictionaryArray.from_arrays(indices, words, safe=False)}))


GARBAGE = {
    "empty": b"",
    "text": b"this is no Arrow data at all, not even close",
    "file magic": b"ARROW1",
    "half a file": ipc_file(pa.table({"x": list(range(1000))}))[:-500],
    "half a stream": ipc({"x": list(range(1000))})[:500],
    "none": None,
    "str": "text",
    "number": 5,
    "no columns": ipc(pa.table({})),
    "bad offsets": with_bad_offsets(),
    "bad text": with_bad_text(),
    "bad dictionary": with_bad_dictionary(),
}


@pytest.mark.parametrize("data", list(GARBAGE.values()), ids=list(GARBAGE))
def test_garbage_is_refused(namespace, data):
    create_table(namespace, "there")
    before = contents(namespace)
    for name, mode in (("t", "create"), ("t", "exist_ok"), ("t", "overwrite"), ("there", "overwrite")):
        with fails(13):
            namespace.create_table({"id": [name], "mode": mode}, data)
    assert contents(namespace) == before


STRANGE = {
    "column twice": pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]),
    "dot in a column": pa.table({"a.b": [1]}),
    "reserved column": pa.table({"_rowid": [1]}),
    "null where none may be": pa.Table.from_arrays(
        [pa.array([1, None])], schema=pa.schema([pa.field("x", pa.int64(), nullable=False)])
    ),
    "union": pa.table({"x": pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])])}),
    "interval": pa.table({"x": pa.array([None], pa.month_day_nano_interval())}),
    "run ends": pa.table({"x": pa.RunEndEncodedArray.from_arrays([2], [1])}),
}


@pytest.mark.parametrize("table", list(STRANGE.values()), ids=list(STRANGE))
def test_data_that_lance_cannot_store_is_refused(namespace, table):
    create_table(namespace, "there")
    before = contents(namespace)
    for name, mode in (("t", "create"), ("there", "overwrite")):
        with fails(13):
            create_table(namespace, name, data=ipc(table), mode=mode)
    assert contents(namespace) == before


def test_a_refused_overwrite_leaves_the_table_as_it_was(place):
    ns, parent = place
    made = create_table(ns, *parent, "t", data=ipc({"x": [1]}))
    with fails(13):
        create_table(ns, *parent, "t", data=ipc({"a.b": [1]}), mode="overwrite")
    found = describe_table(ns, *parent, "t", load_detailed_metadata=True)
    assert found.version == 1
    assert lance.dataset(made.location).to_table().to_pydict() == {"x": [1]}


def test_arrow_file_is_accepted_like_a_stream(place):
    ns, parent = place
    table = pa.table({"x": list(range(100)), "s": [str(i) for i in range(100)]})
    for name, data in (("file", ipc_file(table)), ("stream", ipc(table))):
        location = create_table(ns, *parent, name, data=data).location
        assert lance.dataset(location).to_table() == table


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, pa.py_buffer])
def test_data_can_be_any_bytes_like_object(namespace, kind):
    location = namespace.create_table({"id": ["t"]}, kind(ipc({"x": [1]}))).location
    assert lance.dataset(location).count_rows() == 1


def test_several_batches_are_one_table(namespace):
    table = pa.concat_tables([pa.table({"x": [i, i + 1]}) for i in range(0, 10, 2)])
    location = create_table(namespace, "t", data=ipc(table)).location
    assert lance.dataset(location).to_table()["x"].to_pylist() == list(range(10))


def test_a_table_without_rows_has_its_schema(place):
    ns, parent = place
    schema = pa.schema([pa.field("x", pa.int32()), pa.field("v", pa.list_(pa.float32(), 4))])
    made = create_table(ns, *parent, "t", data=ipc(schema.empty_table()))
    assert made.version == 1
    dataset = lance.dataset(made.location)
    assert dataset.count_rows() == 0
    assert dataset.schema == schema
    assert not describe_table(ns, *parent, "t", check_declared=True).is_only_declared
    assert list_tables(ns, *parent, include_declared=False) == ["t"]


WIDE = {
    "decimal128": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(20, 2)),
    "decimal256": pa.array([decimal.Decimal("1.50"), None], pa.decimal256(50, 2)),
    "fixed-size binary": pa.array([b"0123456789abcdef", None], pa.binary(16)),
    "vectors": pa.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], pa.list_(pa.float32(), 3)),
}


@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("kind", list(WIDE))
def test_wide_values_are_kept_at_any_memory_alignment(tmp_path, open_namespace, kind, shift):
    """Arrow IPC aligns to 8 bytes, Lance's decimals need 16: the buffer of a request is aligned by chance only."""
    table = pa.table({"x": WIDE[kind]})
    padding = b"\0" * 8 * shift
    data = memoryview(padding + ipc(table))[len(padding) :]
    location = open_namespace(tmp_path).create_table({"id": ["t"]}, data).location
    assert lance.dataset(location).to_table() == table
