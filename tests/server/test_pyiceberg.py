"""pyiceberg as a client: it sees Lance tables as Iceberg tables, and cannot read them."""

from __future__ import annotations

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tests.support import create_namespace, describe_table, list_tables

UNREADABLE = (SystemError, ValueError, KeyError, EOFError, OSError)


@pytest.fixture
def iceberg(server) -> RestCatalog:
    return RestCatalog("pennon", uri=server.uri)


def test_namespaces_are_listed_with_their_properties(iceberg, catalog, space):
    create_namespace(catalog, space, "a")
    create_namespace(catalog, space, "a", "b")
    assert (space,) in iceberg.list_namespaces()
    assert iceberg.list_namespaces(space) == [(space, "a")]
    assert iceberg.list_namespaces((space, "a")) == [(space, "a", "b")]
    assert iceberg.load_namespace_properties(space) == {"owner": "tests"}
    assert iceberg.namespace_exists((space, "a", "b"))
    assert not iceberg.namespace_exists((space, "none"))
    with pytest.raises(NoSuchNamespaceError):
        iceberg.list_tables((space, "none"))


def test_a_table_shows_its_schema_history_snapshots_and_properties(iceberg, server, space, events):
    assert iceberg.list_tables(space) == [(space, events)]
    assert iceberg.table_exists((space, events))
    table = iceberg.load_table((space, events))
    assert [(field.name, str(field.field_type)) for field in table.schema().fields] == [
        ("id", "long"),
        ("name", "string"),
        ("double", "long"),
    ]
    assert table.metadata.current_schema_id == table.schema().schema_id == 1
    assert [entry.snapshot_id for entry in table.history()] == [1, 2, 3]
    assert [snapshot.snapshot_id for snapshot in table.snapshots()] == [1, 2, 3]
    current = table.current_snapshot()
    assert (current.snapshot_id, current.parent_snapshot_id, current.sequence_number) == (3, 2, 3)
    assert current.manifest_list.endswith(".manifest")
    managed_by = "impl" if "managed" in str(server.root) else "storage"
    assert table.properties == {"k": "v", "table_type": "lance", "managed_by": managed_by, "gc.enabled": "false"}
    assert table.location().startswith("file://")
    assert table.refs()["main"].snapshot_id == 3
    assert str(table.metadata.table_uuid) == str(iceberg.load_table((space, events)).metadata.table_uuid)
    with pytest.raises(NoSuchTableError):
        iceberg.load_table((space, "none"))


def test_a_scan_raises(iceberg, space, events):
    table = iceberg.load_table((space, events))
    # What its reader of Avro makes of a Lance manifest depends on the bytes; it never is a table.
    with pytest.raises(UNREADABLE):
        table.scan().to_arrow()


def test_namespaces_are_made_changed_and_dropped(iceberg, catalog, space):
    iceberg.create_namespace((space, "new"), {"x": "1", "y": "2"})
    summary = iceberg.update_namespace_properties((space, "new"), removals={"x", "none"}, updates={"z": "3"})
    assert (summary.removed, summary.updated, summary.missing) == (["x"], ["z"], ["none"])
    assert iceberg.load_namespace_properties((space, "new")) == {"y": "2", "z": "3"}
    with pytest.raises(NamespaceNotEmptyError):
        iceberg.drop_namespace(space)
    iceberg.drop_namespace((space, "new"))
    with pytest.raises(NoSuchNamespaceError):
        iceberg.drop_namespace((space, "new"))
    del catalog


ALL_TYPES = Schema(
    NestedField(1, "boolean", BooleanType(), required=True),
    NestedField(2, "int", IntegerType()),
    NestedField(3, "long", LongType()),
    NestedField(4, "float", FloatType()),
    NestedField(5, "double", DoubleType()),
    NestedField(6, "decimal", DecimalType(12, 3)),
    NestedField(7, "date", DateType()),
    NestedField(8, "time", TimeType()),
    NestedField(9, "timestamp", TimestampType()),
    NestedField(10, "timestamptz", TimestamptzType()),
    NestedField(11, "string", StringType()),
    NestedField(12, "uuid", UUIDType()),
    NestedField(13, "fixed", FixedType(5)),
    NestedField(14, "binary", BinaryType()),
    NestedField(15, "list", ListType(16, StructType(NestedField(17, "a", LongType(), required=True)))),
    NestedField(18, "struct", StructType(NestedField(19, "b", StringType()))),
)


def test_a_table_is_created_from_a_schema(iceberg, catalog, space):
    table = iceberg.create_table((space, "made"), ALL_TYPES, properties={"owner": "x"})
    shown = [(field.name, field.field_type.__class__, field.required) for field in table.schema().fields]
    assert shown == [(field.name, field.field_type.__class__, field.required) for field in ALL_TYPES.fields]
    assert table.properties["owner"] == "x"
    assert table.current_snapshot().snapshot_id == 1
    assert catalog._open_table((space, "made")).count_rows() == 0
    with pytest.raises(TableAlreadyExistsError):
        iceberg.create_table((space, "made"), ALL_TYPES)


def test_properties_change_and_columns_do_not(iceberg, catalog, space, events):
    table = iceberg.load_table((space, events))
    with table.transaction() as transaction:
        transaction.set_properties({"new": "1", "k": "w"})
    assert table.properties["new"] == "1"
    assert describe_table(catalog, space, events).properties == {"new": "1", "k": "w"}
    with table.transaction() as transaction:
        transaction.remove_properties("new")
    assert describe_table(catalog, space, events).properties == {"k": "w"}
    with pytest.raises(RESTError, match="changed through Lance"), table.update_schema() as update:
        update.add_column("more", LongType())
    assert catalog._open_table((space, events)).schema.names == ["id", "name", "double"]


def test_rows_are_not_written(iceberg, catalog, space, events):
    import pyarrow as pa

    table = iceberg.load_table((space, events))
    rows = pa.table({"id": [9], "name": ["z"], "double": [18]})
    # It looks into the manifest list first, or is refused by the server.
    with pytest.raises((RESTError, *UNREADABLE)):
        table.append(rows)
    assert catalog._open_table((space, events)).count_rows() == 2


def test_a_table_is_renamed_and_dropped(iceberg, catalog, space, events):
    uuid = iceberg.load_table((space, events)).metadata.table_uuid
    renamed = iceberg.rename_table((space, events), (space, "other"))
    assert renamed.metadata.table_uuid == uuid
    assert list_tables(catalog, space) == ["other"]
    iceberg.drop_table((space, "other"))
    with pytest.raises(NoSuchTableError):
        iceberg.drop_table((space, "other"))
    assert list_tables(catalog, space) == []
