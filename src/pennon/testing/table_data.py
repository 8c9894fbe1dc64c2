"""The data of new tables: Arrow IPC in both forms, and everything that is not."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest

from pennon.testing.calls import create_table, describe_table, fails, ipc, list_tables
from pennon.testing.contract import Contract, Place


def _ipc_file(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _with_bad_offsets() -> bytes:
    good = bytearray(ipc({"s": ["aaaa", "bbbb", "cccc"]}))
    place = good.index(struct.pack("<4i", 0, 4, 8, 12))
    good[place + 4 : place + 8] = struct.pack("<i", 1_000_000)
    return bytes(good)


def _with_bad_text() -> bytes:
    return ipc({"s": ["aaaa"]}).replace(b"aaaa", b"\xff\xfe\xff\xfe")


def _with_bad_dictionary() -> bytes:
    indices, words = pa.array([0, 5], pa.int8()), pa.array(["a"])
    return ipc(pa.table({"s": pa.DictionaryArray.from_arrays(indices, words, safe=False)}))


GARBAGE = {
    "empty": b"",
    "text": b"this is no Arrow data at all, not even close",
    "file magic": b"ARROW1",
    "half a file": _ipc_file(pa.table({"x": list(range(1000))}))[:-500],
    "half a stream": ipc({"x": list(range(1000))})[:500],
    "no columns": ipc(pa.table({})),
    "bad offsets": _with_bad_offsets(),
    "bad text": _with_bad_text(),
    "bad dictionary": _with_bad_dictionary(),
}


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


class TableData(Contract):
    """The data of new tables: Arrow IPC in both forms."""

    @pytest.mark.parametrize("data", list(GARBAGE.values()), ids=list(GARBAGE))
    def test_garbage_is_refused(self, namespace: Any, data: Any) -> None:
        create_table(namespace, "there")
        before = self.contents(namespace)
        for name, mode in (("t", "create"), ("t", "exist_ok"), ("t", "overwrite"), ("there", "overwrite")):
            with fails(13):
                create_table(namespace, name, mode=mode, data=data)
        assert self.contents(namespace) == before

    @pytest.mark.parametrize("table", list(STRANGE.values()), ids=list(STRANGE))
    def test_data_that_lance_cannot_store_is_refused(self, namespace: Any, table: pa.Table) -> None:
        create_table(namespace, "there")
        before = self.contents(namespace)
        for name, mode in (("t", "create"), ("there", "overwrite")):
            with fails(13):
                create_table(namespace, name, data=ipc(table), mode=mode)
        assert self.contents(namespace) == before

    def test_a_refused_overwrite_leaves_the_table_as_it_was(self, place: Place) -> None:
        ns, parent = place
        made = create_table(ns, *parent, "t", data=ipc({"x": [1]}))
        with fails(13):
            create_table(ns, *parent, "t", data=ipc({"a.b": [1]}), mode="overwrite")
        found = describe_table(ns, *parent, "t", load_detailed_metadata=True)
        assert found.version == 1
        assert self.open_dataset(made.location).to_table().to_pydict() == {"x": [1]}

    def test_arrow_file_is_accepted_like_a_stream(self, place: Place) -> None:
        ns, parent = place
        table = pa.table({"x": list(range(100)), "s": [str(i) for i in range(100)]})
        for name, data in (("file", _ipc_file(table)), ("stream", ipc(table))):
            location = create_table(ns, *parent, name, data=data).location
            assert self.open_dataset(location).to_table() == table

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, pa.py_buffer])
    def test_data_can_be_any_bytes_like_object(self, namespace: Any, kind: Any) -> None:
        location = create_table(namespace, "t", data=kind(ipc({"x": [1]}))).location
        assert self.open_dataset(location).count_rows() == 1

    def test_several_batches_are_one_table(self, namespace: Any) -> None:
        table = pa.concat_tables([pa.table({"x": [i, i + 1]}) for i in range(0, 10, 2)])
        location = create_table(namespace, "t", data=ipc(table)).location
        assert self.open_dataset(location).to_table()["x"].to_pylist() == list(range(10))

    def test_a_table_without_rows_has_its_schema(self, place: Place) -> None:
        ns, parent = place
        schema = pa.schema([pa.field("x", pa.int32()), pa.field("v", pa.list_(pa.float32(), 4))])
        made = create_table(ns, *parent, "t", data=ipc(schema.empty_table()))
        assert made.version == 1
        dataset = self.open_dataset(made.location)
        assert dataset.count_rows() == 0
        assert dataset.schema == schema
        assert not describe_table(ns, *parent, "t", check_declared=True).is_only_declared
        assert list_tables(ns, *parent, include_declared=False) == ["t"]
