"""Computed columns that Pennon and LanceDB declare and fill for each other."""

from __future__ import annotations

import lance
import lancedb
import pytest

from tests.support import create_table, ipc

pytestmark = pytest.mark.interop


@pytest.fixture
def shared(tmp_path, open_namespace):
    """Return a namespace with a table `t`, and the same table opened by LanceDB."""
    ns = open_namespace(tmp_path, "v1")
    create_table(ns, "t", data=ipc({"x": [1, 2, 3]}))
    return ns, lancedb.connect(str(tmp_path)).open_table("t")


def column(path, name):
    return sorted(lance.dataset(str(path / "t.lance")).to_table()[name].to_pylist())


def test_lancedb_fills_what_pennon_declares(shared, tmp_path):
    ns, table = shared
    ns.alter_table_add_columns({"id": ["t"], "new_columns": [{"name": "double", "computed": "x * 2"}]})
    table.checkout_latest()
    assert table.refresh_column("double").rows_filled == 3
    assert column(tmp_path, "double") == [2, 4, 6]


def test_pennon_fills_what_lancedb_declares(shared, tmp_path):
    ns, table = shared
    table.add_columns(computed={"double": "x * 2"})
    ns.alter_table_backfill_columns({"id": ["t"], "column": "double"})
    assert column(tmp_path, "double") == [2, 4, 6]
    table.checkout_latest()
    table.refresh_column("double")
    assert column(tmp_path, "double") == [2, 4, 6]


def test_column_metadata_of_lancedb_is_kept(shared):
    ns, table = shared
    table.add_columns(computed={"double": "x * 2"})
    table.refresh_column("double")
    before = table.schema.field("double").metadata
    update = {"path": "double", "metadata": {"unit": "m"}, "replace": True}
    ns.update_field_metadata({"id": ["t"], "updates": [update]})
    table.checkout_latest()
    assert table.schema.field("double").metadata == {**before, b"unit": b"m"}
