"""Pages of tables of all types, of large values, and of tables with missing and damaged files."""

from __future__ import annotations

import html
import re
import shutil
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest
import urllib3
from lance.arrow import bfloat16_array

from pennon import DirectoryNamespace
from tests.server.pages.conftest import Site
from tests.server.pages.media_files import make_png
from tests.server.served import served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VIEWS = ("", "/rows", "/rows?start=2", "?version=1", "/versions", "/compare?before=1&after=3", "/code")
MOST_SECONDS = 20.0
"""More than a page takes on a busy machine, and less than one that does everything for each of many columns."""
MAX = 2**62
BLOB = {"lance-encoding:blob": "true"}
COLUMNS = {
    "struct": pa.array([{"a": 1, "b": {"c": "x"}}, None, {"a": None, "b": None}]),
    "list": pa.array([[{"x": 1.5}], None, []]),
    "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "dictionary": pa.array(["a", "b", None]).dictionary_encode(),
    "decimal": pa.array([Decimal("1.23"), None, Decimal("-9.99")]).cast(pa.decimal256(60, 2)),
    "zone": pa.array([0, None, 10**15], pa.timestamp("us", tz="Europe/Berlin")),
    "nanoseconds": pa.array([1, None, MAX], pa.timestamp("ns")),
    "late": pa.array([MAX, None, -MAX], pa.timestamp("us")),
    "late_in_zone": pa.array([MAX, None, -MAX], pa.timestamp("s", tz="UTC")),
    "late_in_struct": pa.array([{"t": MAX}, None, {"t": None}], pa.struct([("t", pa.timestamp("us"))])),
    "late_in_list": pa.array([[MAX, 0], None, []], pa.list_(pa.timestamp("us"))),
    "late_day": pa.array([2**30, None, 0], pa.date32()),
    "duration": pa.array([1, None, timedelta(days=2)], pa.duration("us")),
    "time": pa.array([1, None, 86_399_999_999_999], pa.time64("ns")),
    "bytes": pa.array([b"\0\xff", None, b""]),
    "fixed_bytes": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    "float16": pa.array(np.array([1.5, np.nan, np.inf], np.float16)),
    "bfloat16": bfloat16_array([1.5, None, 2.5]),
    "nothing": pa.nulls(3),
    "vector": pa.array([[1.0, None, 3.0], None, [float("nan")] * 3], pa.list_(pa.float32(), 3)),
    "wide_vector": pa.array([[1.0] * 2, None, [float("inf"), -1e308]], pa.list_(pa.float64(), 2)),
    "vectors": pa.array([[[1.0, 2.0]], None, []], pa.list_(pa.list_(pa.float32(), 2))),
    "blob_in_struct": pa.array(
        [{"n": 1, "b": b"x"}, None, {"n": 2, "b": None}],
        pa.struct([pa.field("n", pa.int64()), pa.field("b", pa.large_binary(), metadata=BLOB)]),
    ),
    "hidden <name>": pa.array(["x", "y", None]),
    "a\0b": pa.array(["x", "y", None]),
}


def write(root: Path, name: str, rows: pa.Table, *, version: str = "2.2") -> Path:
    """Write a table with three versions, a tag, a branch and an index."""
    path = root / f"{name}.lance"
    table = lance.write_dataset(rows, path, data_storage_version=version)
    table.insert(rows.slice(0, 2))
    table.delete("id = 2")
    table.create_scalar_index("id", "BTREE")
    table.tags.create("first", 1)
    table.create_branch("trial")
    return path


def damage(folder: Path, change: Callable[[Path], object]) -> None:
    files = [one for one in folder.rglob("*") if one.is_file()]
    assert files
    for one in files:
        change(one)


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


DAMAGES = {
    "data_gone": lambda path: damage(path / "data", lambda one: one.unlink()),
    "data_short": lambda path: damage(path / "data", lambda one: one.write_bytes(b"LANC")),
    "data_zero": lambda path: damage(path / "data", zero),
    "deletions_gone": lambda path: shutil.rmtree(path / "_deletions"),
    "deletions_zero": lambda path: damage(path / "_deletions", zero),
    "transactions_gone": lambda path: shutil.rmtree(path / "_transactions"),
    "transactions_short": lambda path: damage(path / "_transactions", lambda one: one.write_bytes(b"\xff\xff")),
    "indexes_gone": lambda path: shutil.rmtree(path / "_indices"),
    "indexes_short": lambda path: damage(path / "_indices", lambda one: one.write_bytes(b"\0")),
    "tags_short": lambda path: damage(path / "_refs" / "tags", lambda one: one.write_bytes(b"{")),
    "tags_wrong": lambda path: damage(path / "_refs" / "tags", lambda one: one.write_text('{"version": -1}')),
    "branches_short": lambda path: damage(path / "_refs" / "branches", lambda one: one.write_bytes(b"{")),
    "versions_gone": lambda path: shutil.rmtree(path / "_versions"),
    "versions_empty": lambda path: damage(path / "_versions", lambda one: one.write_bytes(b"")),
    "versions_short": lambda path: damage(path / "_versions", lambda one: one.write_bytes(one.read_bytes()[:-5])),
    "versions_zero": lambda path: damage(path / "_versions", zero),
}


@pytest.fixture(scope="module")
def odd_site(tmp_path_factory) -> Iterator[Site]:
    """Serve a root with tables of all kinds."""
    root = tmp_path_factory.mktemp("odd")
    write(root, "types", pa.table({"id": [1, 2, 3], **COLUMNS}))
    blobs = lance.blob_array([make_png(), b"plain", None])
    write(root, "blobs", pa.table([[1, 2, 3], blobs], schema=pa.schema([("id", pa.int64()), lance.blob_field("b")])))
    write(root, "wide", pa.table({"id": [1, 2, 3], **{f"c{number}": [0, 1, 2] for number in range(3000)}}))
    large = {"text": ["x" * 10_000_000] * 3, "bytes": [b"x" * 10_000_000] * 3, "numbers": [list(range(500_000))] * 3}
    write(root, "large", pa.table({"id": [1, 2, 3], **large}))
    write(root, "empty", pa.table({"id": [1, 2, 3], **COLUMNS}).slice(0, 0))
    nulls = {name: pa.nulls(3, column.type) for name, column in COLUMNS.items()}
    write(root, "nulls", pa.table({"id": [1, 2, 3], **nulls}))
    (root / "no_table.lance").mkdir()
    (root / "no_table.lance" / "file").touch()
    for name, change in DAMAGES.items():
        change(write(root, name, pa.table({"id": [1, 2, 3], "text": ["a", "b", "c"]})))
    with DirectoryNamespace(root=str(root)) as catalog, served(catalog) as url:
        yield Site(url, catalog)


def get(site: Site, path: str) -> tuple[int, str]:
    answer = urllib3.request("GET", f"{site.url}{path}", retries=False, redirect=False, timeout=MOST_SECONDS)
    return answer.status, html.unescape(answer.data.decode())


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ["types", "blobs", "wide", "large", "empty", "nulls"])
def test_every_view_shows_every_type(odd_site, name, view):
    status, text = get(odd_site, f"/pages/table/{name}{view}")
    assert (status, "cannot be read" in text) == (200, False)


def test_values_that_python_cannot_hold_are_texts(odd_site):
    text = get(odd_site, "/pages/table/types/rows")[1]
    assert f'{{"t": "<value out of range: {MAX}>"}}' in text
    assert f'["<value out of range: {MAX}>", "1970-01-01 00:00:00"]' in text


def test_rows_of_all_types_are_compared(odd_site):
    text = get(odd_site, "/pages/table/types/compare?before=1&after=3&key=id")[1]
    figures = re.findall(r"<dt>(Added|Changed|Deleted)</dt><dd>(\d+)</dd>", text)
    assert figures == [("Added", "1"), ("Changed", "0"), ("Deleted", "1")]


def test_a_change_in_a_late_column_is_shown(odd_site):
    root = Path(odd_site.catalog.catalog.store.identity())
    names = [f"c{number}" for number in range(50)]
    table = lance.write_dataset(pa.table({"id": [1, 2], **{name: [0, 0] for name in names}}), root / "late.lance")
    table.update({"c49": "77"}, where="id = 2")
    text = get(odd_site, "/pages/table/late/compare?key=id")[1]
    shown = text[text.index("Changed rows") :]
    assert re.findall(r'<th scope="col" class="number">(\w+)</th>', shown)[:3] == ["id", "c49", "c0"]
    assert re.findall(r"<(?:del|ins)><span>(\d+)</span>", shown.replace("\n", "")) == ["0", "77"]


def test_pictures_of_a_table_with_deleted_rows_are_those_of_its_rows(odd_site):
    assert get(odd_site, "/pages/table/blobs/media?column=b&row=1&version=1")[0] == 400
    answer = urllib3.request("GET", f"{odd_site.url}/pages/table/blobs/media?column=b&row=2")
    assert (answer.status, answer.data) == (200, make_png())


@pytest.mark.parametrize("name", [*DAMAGES, "no_table"])
def test_damaged_tables_break_no_page(odd_site, name):
    root = odd_site.catalog.catalog.store.identity()
    for view in VIEWS:
        status, text = get(odd_site, f"/pages/table/{name}{view}")
        assert status in {200, 404, 409}, view
        # The identity() is a part of the page. Nothing else names files of the server.
        without = re.sub(r"<dt>Location</dt><dd>.*?</dd>", "", text)
        assert root not in without, view
        assert ".rs:" not in text, view


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("data_gone", ["Rows cannot be read: files of the table are missing."]),
        ("data_zero", ["Rows cannot be read: files of the table are damaged."]),
        ("tags_short", ["Tags cannot be read: the log of the server has the reason."]),
    ],
)
def test_the_overview_shows_what_can_be_read(odd_site, name, faults):
    status, text = get(odd_site, f"/pages/table/{name}")
    assert status == 200
    assert re.findall(r'<p class="notice danger">(.*?)</p>', text) == faults
    assert "id_idx" in text
    assert ">trial " in text


@pytest.mark.parametrize("path", ["/", "/pages/health", "/pages/search?q=i&in=columns"])
def test_lists_have_damaged_tables_next_to_others(odd_site, path):
    status, text = get(odd_site, path)
    assert status == 200
    assert ">types</a>" in text
    assert ".rs:" not in text
