"""The schema in a description: Arrow's types as the namespace specification's JSON."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pennon.testing import TableSchemas
from tests.contract.disk import OnDisk
from tests.support import create_table, describe_table, ipc


class TestTableSchemas(OnDisk, TableSchemas):
    @pytest.fixture
    def namespace(self, tmp_path, open_namespace):
        """One root is enough: schemas do not depend on the catalog."""
        return open_namespace(tmp_path)


def test_metadata_of_the_schema_is_kept(tmp_path, open_namespace):
    ns = open_namespace(tmp_path)
    schema = pa.schema([pa.field("x", pa.int32()), pa.field("y", pa.string())], metadata={"made by": "us", "é": "ü"})
    create_table(ns, "t", data=ipc(schema.empty_table()))
    found = describe_table(ns, "t", load_detailed_metadata=True).var_schema
    assert [field.name for field in found.fields] == ["x", "y"]
    assert found.metadata == {"made by": "us", "é": "ü"}
