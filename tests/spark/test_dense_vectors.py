"""Vectors without nulls, as recorded in the metadata of files."""

from __future__ import annotations

from dataclasses import replace

import lance
import pyarrow as pa
import pytest

from pennon.errors import InternalError
from pennon.spark.reading import dense_vectors as module
from pennon.spark.reading import scan
from pennon.spark.reading.dense_vectors import DenseVectors, find_dense_vectors
from pennon.spark.reading.pinned import PinnedTable
from tests.support import create_table, ipc

VECTOR = pa.list_(pa.float32(), 2)
LARGE = 1 << 40
ROWS = 5000  # more than the driver reads itself


def vectors(rows=8, *, null=None, null_inside=None):
    """Return vectors; optionally one is null, or contains a null."""
    values = [[float(n), n + 0.5] for n in range(rows)]
    if null is not None:
        values[null] = None
    if null_inside is not None:
        values[null_inside][1] = None
    return pa.table({"id": range(rows), "v": pa.array(values, VECTOR)})


def found(path, **changes):
    dataset = lance.dataset(path)
    table = replace(PinnedTable(("t",), str(path), dataset.version), **changes)
    return find_dense_vectors(table, dataset.schema, LARGE).columns


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("rows", [8, 100_000])
@pytest.mark.parametrize(
    ("nulls", "expected"),
    [({}, {"v"}), ({"null": 5}, set()), ({"null_inside": 5}, set())],
    ids=["none", "one", "inside"],
)
def test_vectors_without_nulls_are_found_in_file_metadata(tmp_path, version, rows, nulls, expected) -> None:
    lance.write_dataset(vectors(rows, **nulls), tmp_path / "t", data_storage_version=version)
    assert found(tmp_path / "t") == expected


@pytest.mark.parametrize("version", ["legacy", "2.0"])
def test_old_file_formats_are_not_examined(tmp_path, version) -> None:
    lance.write_dataset(vectors(), tmp_path / "t", data_storage_version=version)
    assert found(tmp_path / "t") == set()


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_wide_and_constant_vectors_are_dense(tmp_path, kind) -> None:
    wide = pa.array([[float(n)] * 900 for n in range(100)], pa.list_(kind, 900))
    same = pa.array([[1.0, 1.0]] * 100, pa.list_(kind, 2))
    lance.write_dataset(pa.table({"wide": wide, "same": same}), tmp_path / "t")
    assert found(tmp_path / "t") == {"wide", "same"}


def test_one_fragment_with_nulls_is_enough(tmp_path) -> None:
    path = tmp_path / "t"
    for _ in range(2):
        lance.write_dataset(vectors(), path, mode="append")
    assert found(path) == {"v"}
    lance.write_dataset(vectors(null_inside=7), path, mode="append")
    assert found(path) == set()
    lance.dataset(path).delete("v[2] IS NULL")
    assert found(path) == set()
    lance.dataset(path).optimize.compact_files()
    assert found(path) == {"v"}


def test_a_fragment_that_lacks_the_column_has_nulls(tmp_path) -> None:
    path = tmp_path / "t"
    dataset = lance.write_dataset(vectors(), path)
    dataset.add_columns(pa.field("w", VECTOR))
    assert found(path) == {"v"}
    dataset.drop_columns(["w"])
    dataset.add_columns(lambda batch: pa.record_batch({"w": batch["v"]}), read_columns=["v"])
    assert found(path) == {"v", "w"}
    lance.write_dataset(vectors(), path, mode="append")
    assert found(path) == {"v"}


@pytest.mark.parametrize(
    "damage", [lambda file: file.unlink(), lambda file: file.write_bytes(b"")], ids=["gone", "empty"]
)
def test_unreadable_file_is_not_dense(tmp_path, damage) -> None:
    lance.write_dataset(vectors(), tmp_path / "t")
    (file,) = (tmp_path / "t" / "data").iterdir()
    damage(file)
    assert found(tmp_path / "t") == set()


@pytest.mark.parametrize("changes", [{"uri": "s3://bucket/t"}, {"branch": "b"}], ids=["a bucket", "a branch"])
def test_remote_files_are_not_opened(tmp_path, changes) -> None:
    lance.write_dataset(vectors(), tmp_path / "t")
    assert found(tmp_path / "t", **changes) == set()


def test_small_reads_examine_no_files(tmp_path) -> None:
    dataset = lance.write_dataset(vectors(), tmp_path / "t")
    table = PinnedTable(("t",), str(tmp_path / "t"), 1)
    assert find_dense_vectors(table, dataset.schema, 4 * 1024 * 1024 - 1).columns == set()
    assert find_dense_vectors(table, dataset.schema, 4 * 1024 * 1024).columns == {"v"}
    assert find_dense_vectors(table, pa.schema([dataset.schema.field("id")]), LARGE).columns == set()
    many = pa.schema([*dataset.schema, *(pa.field(f"c{number}", pa.int64()) for number in range(31))])
    assert find_dense_vectors(table, many, LARGE).columns == set()
    twins = dataset.schema.append(pa.field("V", pa.int64()))
    assert find_dense_vectors(table, twins, LARGE).columns == set()


def test_data_in_a_page_is_not_parsed_as_its_encoding() -> None:
    told = "layers: [\n  RepdefAllValidItem,\n ], values: FixedSizeList { has_validity: false, x: %s }"
    assert module._is_dense(told % "None")
    assert module._is_dense(told % r'b"\" has_validity: true \\"')
    assert not module._is_dense(told % "has_validity: true")
    assert not module._is_dense(told % "layers: [RepdefAllValidItem]")
    assert not module._is_dense('values: b"layers: [RepdefAllValidItem]"')
    assert not module._is_dense("layers: [RepdefAllValidItem, RepdefNullableList]")


def test_unexpected_null_raises_internal_error() -> None:
    batch = pa.record_batch({"v": pa.array([[1.0, None]], pa.list_(pa.float32()))})
    assert DenseVectors().check(batch) is batch
    with pytest.raises(InternalError, match="Vectors of column v"):
        DenseVectors(frozenset("v")).check(batch)


@pytest.mark.parametrize("null_inside", [None, 17, ROWS - 1])
def test_spark_reads_the_same_rows_and_schema(lake, monkeypatch, capsys, null_inside) -> None:
    monkeypatch.setattr(module, "_BYTES_PER_LOOK", 1)
    data = vectors(ROWS, null_inside=null_inside)
    create_table(lake.catalog, "t", data=ipc(data))
    wanted = scan.plan_scan(lake.address, ("t",))
    dense = find_dense_vectors(wanted.table, wanted.schema, wanted.bytes)
    assert dense.columns == (set() if null_inside is not None else {"v"})
    assert dense.mark_non_null(wanted.spark_schema())["v"].dataType.containsNull is (null_inside is not None)
    frame = lake.sql("SELECT * FROM t")
    assert frame.schema == wanted.spark_schema() == lake.table("t").schema
    frame.explain()
    assert "Project" not in capsys.readouterr().out
    assert frame.orderBy("id").toArrow().to_pylist() == data.to_pylist()
    joined = lake.sql("SELECT count(t.v[1]), count(*) FROM t JOIN t AS u USING (id) WHERE u.v[0] >= 0")
    assert joined.first() == (ROWS - (null_inside is not None), ROWS)
