"""Arrow data of a few kilobytes cannot take hundreds of megabytes of memory."""

from __future__ import annotations

import io
import struct
import subprocess
import sys

import pyarrow as pa
import pytest

from pennon.errors import InvalidInputError
from pennon.table.ipc import open_ipc, read_ipc
from pennon.table.ipc_limits import ALWAYS_ALLOWED
from tests.support import create_table, fails, ipc, list_tables


def write_ipc(table: pa.Table, *, file: bool = False, compression: str | None = "zstd") -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with (pa.ipc.new_file if file else pa.ipc.new_stream)(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def views(rows: int, size: int) -> pa.Table:
    """Show one text of `size` bytes in each row."""
    view = struct.pack("<i4sii", size, b"xxxx", 0, 0)
    column = pa.Array.from_buffers(pa.string_view(), rows, [None, pa.py_buffer(view * rows), pa.py_buffer(b"x" * size)])
    return pa.table({"x": column})


def many_batches() -> bytes:
    """Return a file of many small batches."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"x": pa.nulls(100_000, pa.int64())})
    with pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        for _ in range(200):
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


MEGA = 1 << 20
ROWS = 32 * MEGA


def zeros() -> pa.Table:
    """Return 256 MB of zeros."""
    return pa.table({"x": pa.nulls(ROWS, pa.int64())})


BOMBS = {
    "compressed zeros": lambda: write_ipc(zeros()),
    "lz4": lambda: write_ipc(zeros(), compression="lz4"),
    "in a file": lambda: write_ipc(zeros(), file=True),
    "many batches": many_batches,
    "rows of nothing": lambda: write_ipc(pa.table({"x": pa.nulls(1 << 30)})),
    "rows of nothing in a list": lambda: write_ipc(
        pa.table({"x": pa.ListArray.from_arrays(pa.array([0, 1 << 30], pa.int32()), pa.nulls(1 << 30))})
    ),
    "texts without bytes": lambda: write_ipc(
        pa.table({"x": pa.FixedSizeBinaryArray.from_buffers(pa.binary(0), 1 << 30, [None, pa.py_buffer(b"")])})
    ),
    "views of one text": lambda: write_ipc(views(1000, MEGA)),
    "a compressed dictionary": lambda: write_ipc(
        pa.table({"x": pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), zeros()["x"].chunk(0))})
    ),
}


@pytest.fixture(scope="module", params=BOMBS)
def bomb(request) -> bytes:
    return BOMBS[request.param]()


def test_data_that_expands_is_refused(bomb, tmp_path, open_namespace):
    assert len(bomb) < MEGA * 3 // 2
    namespace = open_namespace(str(tmp_path / "root"))
    create_table(namespace, "t", data=ipc({"x": [1]}))
    with fails(13, "in memory"):
        create_table(namespace, "new", data=bomb)
    with fails(13, "in memory"):
        namespace.insert_into_table({"id": ["t"]}, bomb)
    with fails(13, "in memory"):
        namespace.insert_into_table({"id": ["t"], "mode": "overwrite"}, bomb)
    with fails(13, "in memory"):
        namespace.merge_insert_into_table({"id": ["t"], "on": "x", "when_not_matched_insert_all": True}, bomb)
    assert list_tables(namespace) == ["t"]
    assert namespace.count_table_rows({"id": ["t"]}).count == 1


def test_expanding_data_is_rejected_before_decompression(tmp_path):
    """The process does not allocate memory for the expanded data."""
    (tmp_path / "data").write_bytes(BOMBS["compressed zeros"]())
    program = (
        "import resource, sys, pathlib\n"
        "from pennon.table.ipc import read_ipc\n"
        "from pennon.errors import InvalidInputError\n"
        "data = pathlib.Path(sys.argv[1]).read_bytes()\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    read_ipc(data)\nexcept InvalidInputError:\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "data")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert int(ended.stdout) * 1024 < 100 * MEGA


@pytest.mark.parametrize("size", [4096, 1 << 20], ids="{} bytes at a time".format)
@pytest.mark.parametrize(
    "name", ["compressed zeros", "rows of nothing", "views of one text", "a compressed dictionary"]
)
def test_stream_is_checked_while_it_is_read(name, size):
    class Slow(io.BytesIO):
        def read(self, wanted: int = -1) -> bytes:
            return super().read(min(wanted, size) if wanted >= 0 else size)

    source = Slow(BOMBS[name]())
    with pytest.raises(InvalidInputError, match="in memory"):
        open_ipc(source).read_all()


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@pytest.mark.parametrize("file", [False, True], ids=["stream", "file"])
def test_ordinary_data_is_read(compression, file):
    table = pa.table(
        {
            "n": pa.array([None, *range(99_999)], pa.int64()),
            "zeros": pa.array([0] * 100_000, pa.int64()),
            "flags": [True, False] * 50_000,
            "texts": ["a text", None] * 50_000,
            "words": pa.array(["red", "green"] * 50_000).dictionary_encode(),
            "lists": [[1, 2, 3], []] * 50_000,
            "structs": [{"a": 1, "b": "x"}] * 100_000,
            "views": pa.array(["short", "a text that is longer than twelve"] * 50_000, pa.string_view()),
            "nothing": pa.nulls(100_000),
        }
    )
    data = write_ipc(table, file=file, compression=compression)
    assert read_ipc(data).equals(table)
    if not file:
        assert open_ipc(io.BytesIO(data)).read_all().equals(table)


def test_small_data_may_expand_up_to_the_limit():
    rows = ALWAYS_ALLOWED // 16
    assert read_ipc(write_ipc(pa.table({"x": pa.array([0] * rows, pa.int64())}))).num_rows == rows


@pytest.mark.parametrize("file", [False, True], ids=["stream", "file"])
def test_damaged_metadata_is_refused(file):
    """Whatever byte is wrong, only error 13 comes of it."""
    data = write_ipc(pa.table({"x": [1, 2, 3], "s": ["a", "b", None]}), file=file)
    refused = 0
    for at in range(0, len(data), 3):
        for value in (0x00, 0x7F, 0xFF):
            refused += is_rejected(data[:at] + bytes([value]) + data[at + 1 :], file=file)
    for length in range(0, len(data), 5):
        refused += is_rejected(data[:length], file=file)
    assert refused > len(data) // 5


def is_rejected(data: bytes, *, file: bool) -> bool:
    """Return True if both ways of reading refuse the data, or one of them does for a file."""
    refused = []
    for read in (read_ipc,) if file else (read_ipc, lambda given: open_ipc(io.BytesIO(given)).read_all()):
        try:
            read(data)
        except InvalidInputError:
            refused.append(read)
    return bool(refused)
