"""The data of new tables: Arrow IPC in both forms, and everything that is not."""

from __future__ import annotations

import decimal

import lance
import pyarrow as pa
import pytest

from pennon.testing import TableData
from tests.contract.disk import OnDisk, contents
from tests.support import create_table, fails, ipc

WIDE = {
    "decimal128": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(20, 2)),
    "decimal256": pa.array([decimal.Decimal("1.50"), None], pa.decimal256(50, 2)),
    "fixed-size binary": pa.array([b"0123456789abcdef", None], pa.binary(16)),
    "vectors": pa.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], pa.list_(pa.float32(), 3)),
}


class TestTableData(OnDisk, TableData):
    pass


@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("kind", list(WIDE))
def test_wide_values_are_kept_at_any_memory_alignment(tmp_path, open_namespace, kind, shift):
    """Arrow IPC aligns to 8 bytes, Lance's decimals need 16: the buffer of a request is aligned by chance only."""
    table = pa.table({"x": WIDE[kind]})
    padding = b"\0" * 8 * shift
    data = memoryview(padding + ipc(table))[len(padding) :]
    location = open_namespace(tmp_path).create_table({"id": ["t"]}, data).location
    assert lance.dataset(location).to_table() == table


@pytest.mark.parametrize("data", [None, "text", 5], ids=["none", "str", "number"])
def test_data_of_another_type_is_refused(namespace, data):
    create_table(namespace, "there")
    before = contents(namespace)
    for name, mode in (("t", "create"), ("t", "exist_ok"), ("t", "overwrite"), ("there", "overwrite")):
        with fails(13):
            namespace.create_table({"id": [name], "mode": mode}, data)
    assert contents(namespace) == before
