"""Arrow IPC data: it is read back unchanged, garbage is refused, and large data needs little memory."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import subprocess
import sys
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from lance_namespace.errors import LanceNamespaceError

from tests.support import create_table, describe_table, fails, ipc, list_tables
from tests.table.calls import count, delete, ids, insert, merge, query, update
from tests.table.kinds import opened

UTC = dt.timezone.utc
MOMENT = dt.datetime(2026, 3, 29, 1, 59, 59, 999_999, tzinfo=UTC)


def ipc_file(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


COLUMNS = {
    "integers": pa.array([1, None, -(2**63)], pa.int64()),
    "unsigned": pa.array([2**64 - 1, None, 0], pa.uint64()),
    "floats": pa.array([1.5, None, float("inf")], pa.float64()),
    "half floats": pa.array([1.5, None, 2.0], pa.float16()),
    "booleans": pa.array([True, None, False]),
    "texts": pa.array(["", None, "ä\0"]),
    "large texts": pa.array(["", None, "x" * 1000], pa.large_string()),
    "bytes": pa.array([b"", None, b"\0\xff"]),
    "fixed bytes": pa.array([b"0123", None, b"\0\0\0\0"], pa.binary(4)),
    "decimals": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-99999999.99")], pa.decimal128(10, 2)),
    "wide decimals": pa.array([decimal.Decimal("1.5"), None, decimal.Decimal(10) ** 40], pa.decimal256(50, 1)),
    "dates": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
    "times": pa.array([dt.time(23, 59, 59, 999_999), None, dt.time()], pa.time64("us")),
    "durations": pa.array([1, None, -1], pa.duration("ns")),
    "moments": pa.array([MOMENT.replace(tzinfo=None), None, None], pa.timestamp("us")),
    "moments in UTC": pa.array([MOMENT, None, None], pa.timestamp("us", "UTC")),
    "moments in a zone": pa.array([MOMENT, None, None], pa.timestamp("ns", "Europe/Berlin")),
    "moments at an offset": pa.array([MOMENT, None, None], pa.timestamp("ms", "+05:30")),
    "dictionary": pa.array(["a", None, "b"]).dictionary_encode(),
    "small dictionary": pa.array(["a", None, "b"], pa.dictionary(pa.int8(), pa.string())),
    "lists": pa.array([[1, None], None, []], pa.list_(pa.int32())),
    "lists of lists": pa.array([[["a"], []], None, [None]], pa.list_(pa.list_(pa.string()))),
    "large lists": pa.array([[1], None, []], pa.large_list(pa.int64())),
    "structs": pa.array([{"a": 1, "b": {"c": "x"}}, None, {"a": None, "b": None}]),
    "structs of lists": pa.array([{"a": [1, 2]}, None, {"a": None}]),
    "lists of structs": pa.array([[{"a": 1}, None], None, []]),
    "vectors": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2)),
    "vectors of half floats": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float16(), 2)),
    "vectors of bytes": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.uint8(), 2)),
    "vectors in structs": pa.array([{"v": [1.0, 2.0]}] * 3, pa.struct([("v", pa.list_(pa.float32(), 2))])),
}


def same(found: pa.Table, expected: pa.Table) -> bool:
    """Compare types and values. Chunks and the numbers in dictionaries do not matter."""
    return found.schema.equals(expected.schema) and found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("kind", list(COLUMNS))
def test_data_is_read_back_unchanged(namespace, kind):
    table = pa.table({"id": [0, 1, 2], "x": COLUMNS[kind]})
    create_table(namespace, "t", data=ipc(table))
    assert same(query(namespace, "t"), table)
    insert(namespace, "t", data=table.slice(1))
    assert same(query(namespace, "t"), pa.concat_tables([table, table.slice(1)]))
    insert(namespace, "t", data=table.slice(0, 0))
    assert count(namespace, "t") == 5


@pytest.mark.parametrize("write", [ipc, ipc_file], ids=["stream", "file"])
def test_inserts_and_merges_take_streams_and_files(ours, write):
    table = pa.table({"id": [1, 2], "text": ["a", "b"]})
    create_table(ours, "t", data=write(table))
    insert(ours, "t", data=write(table.set_column(0, "id", pa.array([3, 4]))))
    merge(ours, "t", data=write(table), when_matched_update_all=True)
    assert sorted(ids(query(ours, "t"))) == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, pa.py_buffer, io.BytesIO])
def test_data_may_be_any_buffer_or_source_of_bytes(ours, kind):
    create_table(ours, "t", data=ipc({"id": [1]}))
    insert(ours, "t", data=kind(ipc({"id": [2]})))
    merge(ours, "t", data=kind(ipc({"id": [3]})), when_not_matched_insert_all=True)
    assert sorted(ids(query(ours, "t"))) == [1, 2, 3]


def test_empty_batches_add_no_rows(ours):
    schema = pa.schema([("id", pa.int64())])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for values in ([], [1, 2], [], [], [3], []):
            writer.write_batch(pa.record_batch([pa.array(values, pa.int64())], schema=schema))
    data = sink.getvalue().to_pybytes()
    create_table(ours, "t", data=data)
    assert insert(ours, "t", data=data).num_inserted_rows == 3
    assert insert(ours, "t", data=io.BytesIO(data)).num_inserted_rows == 3
    assert ids(query(ours, "t")) == [1, 2, 3] * 3


def test_batches_with_their_own_dictionaries_share_one_in_the_response(ours):
    first, second = (pa.table({"d": pa.array(words).dictionary_encode()}) for words in (["a", "b"], ["c", "b"]))
    create_table(ours, "t", data=ipc(first))
    insert(ours, "t", data=second)
    found = query(ours, "t")
    assert found["d"].to_pylist() == ["a", "b", "c", "b"]
    assert pa.types.is_dictionary(found["d"].type)


def with_bad_text() -> bytes:
    return ipc({"id": [1], "s": ["aaaa"]}).replace(b"aaaa", b"\xff\xfe\xff\xfe")


def misnamed(table: pa.Table) -> bytes:
    """Return a stream in which every name `name` is not valid text."""
    return ipc(table).replace(b"name", b"\xff\xfe\xfdq")


def noted(field: bytes, schema: bytes) -> bytes:
    """Return a stream with metadata of a column and of the schema."""
    column = pa.field("id", pa.int64(), metadata={b"k": field})
    return ipc(pa.table([pa.array([1])], schema=pa.schema([column], {b"k": schema})))


GARBAGE = {
    "nothing": b"",
    "text": b"this is no Arrow data at all, not even close",
    "file magic": b"ARROW1",
    "half a file": ipc_file(pa.table({"id": list(range(1000))}))[:-500],
    "half a stream": ipc({"id": list(range(1000))})[:500],
    "None": None,
    "str": "text",
    "number": 5,
    "no columns": ipc(pa.table({})),
    "bad text": with_bad_text(),
    "open file of garbage": io.BytesIO(b"garbage"),
    "open file that is no stream": io.BytesIO(ipc_file(pa.table({"id": [1]}))),
    "bad name": misnamed(pa.table({"name": [1]})),
    "bad name inside": misnamed(pa.table({"id": [1], "s": [{"name": [{"a": 1}]}]})),
    "bad zone": ipc({"id": pa.array([1], pa.timestamp("us", "Europe/Berlin"))}).replace(b"Berlin", b"B\xffrlin"),
    "bad metadata": noted(b"v", b"\xff"),
    "bad metadata of a column": noted(b"\xff", b"v"),
}


@pytest.mark.parametrize("case", list(GARBAGE))
def test_garbage_is_refused(ours, case):
    create_table(ours, "t", data=ipc({"id": [1], "s": ["x"]}))
    data = GARBAGE[case]
    for change in (
        lambda: ours.create_table({"id": ["u"]}, data),
        lambda: ours.create_table({"id": ["t"], "mode": "overwrite"}, data),
        lambda: ours.insert_into_table({"id": ["t"]}, data),
        lambda: ours.insert_into_table({"id": ["t"], "mode": "overwrite"}, data),
        lambda: ours.merge_insert_into_table({"id": ["t"], "on": ["id"], "when_matched_update_all": True}, data),
    ):
        with fails(13):
            change()
    assert describe_table(ours, "t", load_detailed_metadata=True).version == 1
    assert list_tables(ours) == ["t"]


EVERYTHING = ipc(
    pa.table(
        {
            "id": [1, 2, 3],
            "texts": ["aa", "bb", None],
            "words": pa.array(["x", "y", "x"]).dictionary_encode(),
            "lists": [[1], [2, 3], None],
            "vectors": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32(), 2)),
            "structs": [{"a": 1}] * 3,
            "bytes": [b"1", b"22", None],
            "moments": pa.array([MOMENT] * 3, pa.timestamp("us", "Europe/Berlin")),
        }
    )
)


@settings(max_examples=300, deadline=None)
@given(
    changes=st.lists(st.tuples(st.integers(0, len(EVERYTHING) - 1), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.none() | st.integers(0, len(EVERYTHING)),
    wrap=st.sampled_from([bytes, io.BytesIO]),
)
def test_a_damaged_stream_is_read_or_refused(damaged_into, changes, cut, wrap):
    data = bytearray(EVERYTHING)
    for place, value in changes:
        data[place] = value
    before = count(damaged_into, "t")
    try:
        inserted = insert(damaged_into, "t", data=wrap(bytes(data[:cut]))).num_inserted_rows
    except LanceNamespaceError as error:
        assert int(error.code) in {13, 20}  # noqa: PT017 - one of two outcomes
        inserted = 0
    assert count(damaged_into, "t") == before + inserted
    assert query(damaged_into, "t", k=1_000_000).num_rows == before + inserted


@pytest.fixture(scope="module")
def damaged_into(tmp_path_factory):
    """Open a catalog with a table for one damaged stream after the other."""
    with opened("v2", tmp_path_factory.mktemp("damaged") / "root") as ns:
        create_table(ns, "t", data=EVERYTHING)
        yield ns


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_data_is_read(ours, compression):
    table = pa.table({"id": list(range(1000))})
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    create_table(ours, "t", data=sink.getvalue())
    insert(ours, "t", data=io.BytesIO(sink.getvalue()))
    assert ids(query(ours, "t", k=2000)) == list(range(1000)) * 2


@pytest.mark.parametrize("deltas", [False, True])
def test_a_dictionary_may_change_within_a_stream(ours, deltas):
    schema = pa.schema([("d", pa.dictionary(pa.int8(), pa.string()))])
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)) as writer:
        for words in (["a", "b"], ["a", "b", "c"], ["z", "a"]):
            numbers = pa.array(range(len(words)), pa.int8())
            writer.write_batch(
                pa.record_batch([pa.DictionaryArray.from_arrays(numbers, pa.array(words))], schema=schema)
            )
    create_table(ours, "t", data=sink.getvalue())
    insert(ours, "t", data=sink.getvalue())
    insert(ours, "t", data=io.BytesIO(sink.getvalue()))
    assert query(ours, "t")["d"].to_pylist() == ["a", "b", "a", "b", "c", "z", "a"] * 3


def test_an_interrupted_stream_changes_nothing(ours):
    table = pa.concat_tables([pa.table({"id": list(range(1000))})] * 5)
    create_table(ours, "t", data=ipc(table))
    for change in (
        lambda data: insert(ours, "t", data=data),
        lambda data: insert(ours, "t", data=data, mode="overwrite"),
        lambda data: merge(ours, "t", data=data, when_not_matched_insert_all=True),
    ):
        with fails(13):
            change(io.BytesIO(ipc(table)[:-5000]))
    assert describe_table(ours, "t", load_detailed_metadata=True).version == 1
    assert count(ours, "t") == 5000


def blobs() -> pa.Table:
    values = lance.blob_array([b"small", b"x" * 300_000, None])
    return pa.table([pa.array([0, 1, 2]), values], schema=pa.schema([("id", pa.int64()), lance.blob_field("b")]))


def old_blobs() -> pa.Table:
    field = pa.field("b", pa.large_binary(), metadata={b"lance-encoding:blob": b"true"})
    values = pa.array([b"small", b"x" * 300_000, None], pa.large_binary())
    return pa.table([pa.array([0, 1, 2]), values], schema=pa.schema([("id", pa.int64()), field]))


@pytest.mark.parametrize("table", [blobs(), old_blobs()], ids=["blobs", "old blobs"])
def test_blobs_come_back_as_bytes(namespace, table):
    values = [b"small", b"x" * 300_000, None]
    create_table(namespace, "t", data=ipc(table))
    insert(namespace, "t", data=table)
    assert query(namespace, "t")["b"].to_pylist() == values * 2
    plain = pa.table({"id": [7], "b": pa.array([b"plain bytes"], pa.large_binary())})
    insert(namespace, "t", data=plain)
    merge(namespace, "t", data=plain.set_column(0, "id", pa.array([8])), when_not_matched_insert_all=True)
    update(namespace, "t", to={"id": "id + 10"}, predicate="id = 0")
    delete(namespace, "t", where="id = 1")
    found = query(namespace, "t")
    assert sorted(zip(ids(found), found["b"].to_pylist(), strict=True), key=str) == sorted(
        [(10, b"small"), (10, b"small"), (2, None), (2, None), (7, b"plain bytes"), (8, b"plain bytes")], key=str
    )


def test_blobs_can_be_overwritten_and_created_again(ours):
    for _ in range(2):
        create_table(ours, "t", data=ipc(blobs()), mode="overwrite")
        assert query(ours, "t")["b"].to_pylist() == [b"small", b"x" * 300_000, None]


SCALARS = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(max_size=20),
    pa.binary(): st.binary(max_size=20),
    pa.bool_(): st.booleans(),
    pa.decimal128(12, 3): st.decimals(-(10**8), 10**8, places=3, allow_nan=False),
    pa.timestamp("us", "Asia/Kolkata"): st.datetimes(
        MOMENT.replace(year=1900, tzinfo=None), MOMENT.replace(year=2200, tzinfo=None), timezones=st.just(UTC)
    ),
    pa.dictionary(pa.int32(), pa.string()): st.sampled_from(["red", "green", "blue"]),
}


def valued(kind: pa.DataType) -> st.SearchStrategy:
    if kind in SCALARS:
        return st.none() | SCALARS[kind]
    if pa.types.is_struct(kind):
        return st.none() | st.fixed_dictionaries({field.name: valued(field.type) for field in kind})
    if pa.types.is_fixed_size_list(kind):
        numbers = st.floats(width=32, allow_nan=False)
        return st.lists(numbers, min_size=kind.list_size, max_size=kind.list_size)
    return st.none() | st.lists(valued(kind.value_type), max_size=3)


PLAIN = [kind for kind in SCALARS if not pa.types.is_dictionary(kind)]
KINDS_OF_DATA = st.one_of(
    st.sampled_from(list(SCALARS)),
    st.just(pa.list_(pa.float32(), 3)),
    st.recursive(
        st.sampled_from(PLAIN),
        lambda inner: st.one_of(
            inner.map(pa.list_),
            st.lists(inner, min_size=1, max_size=2).map(
                lambda kinds: pa.struct([(f"f{number}", kind) for number, kind in enumerate(kinds)])
            ),
        ),
        max_leaves=3,
    ),
)


@st.composite
def tables(draw) -> tuple[pa.Table, pa.Table]:
    """Draw a table and more rows for it."""
    kinds = draw(st.lists(KINDS_OF_DATA, min_size=1, max_size=3))
    schema = pa.schema([(f"c{number}", kind) for number, kind in enumerate(kinds)])

    def rows(most: int) -> pa.Table:
        size = draw(st.integers(0, most))
        columns = [pa.array([draw(valued(kind)) for _ in range(size)], kind) for kind in kinds]
        return pa.table(columns, schema=schema)

    return rows(5), rows(5)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(tables())
def test_any_data_is_read_back_unchanged(drawn):
    first, second = drawn
    with tempfile.TemporaryDirectory() as root, opened("v2", Path(root)) as ns:
        create_table(ns, "t", data=ipc(first))
        assert insert(ns, "t", data=ipc_file(second)).num_inserted_rows == second.num_rows
        found = query(ns, "t")
        assert found.schema.equals(first.schema)
        assert found.to_pylist() == first.to_pylist() + second.to_pylist()


PROGRAM = """
import io, resource, sys
import pyarrow as pa
from pennon import DirectoryNamespace

def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

class Rows(io.RawIOBase):
    # An Arrow stream that is generated while it is read, in batches of 8 MB.
    def __init__(self, batches):
        self.schema = pa.schema([("id", pa.int64()), ("body", pa.binary())])
        self.left, self.buffer = batches, b""
        self.sink = io.BytesIO(); self.writer = pa.ipc.new_stream(self.sink, self.schema)
    def readable(self): return True
    def read(self, size=-1):
        while len(self.buffer) < size and self.left >= 0:
            if self.left:
                bodies = [bytes([self.left % 256]) * (1 << 20)] * 8
                self.writer.write_batch(pa.record_batch([range(8), bodies], schema=self.schema))
            else: self.writer.close()
            self.left -= 1
            self.buffer += self.sink.getvalue(); self.sink.seek(0); self.sink.truncate()
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken

with DirectoryNamespace(root=sys.argv[1], manifest_enabled="true", dir_listing_enabled="false") as ns:
    first = Rows(1)
    ns.create_table({"id": ["t"]}, first.read(1 << 30))
    ns.insert_into_table({"id": ["t"]}, Rows(4))
    sum(batch.num_rows for batch in ns.query_batches({"id": ["t"], "k": 10**9, "vector": {}}))
    before = peak()
    done = ns.insert_into_table({"id": ["t"]}, Rows(int(sys.argv[2])))
    inserted = peak()
    rows = sum(batch.num_rows for batch in ns.query_batches({"id": ["t"], "k": 10**9, "vector": {}}))
    assert rows == done.num_inserted_rows + 40, rows
    print(inserted - before, peak() - before)
"""


def test_large_data_is_written_and_read_in_little_memory(tmp_path):
    grown = {}
    for batches in (50, 100):
        out = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / str(batches)), str(batches)],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"},
        ).stdout
        grown[batches] = [float(number) for number in out.split()]
    # 400 and 800 MB: the memory that is needed does not depend on the amount of data.
    assert grown[100][0] < 150, grown
    assert grown[100][1] < 300, grown
