"""The manifest has the schema, the rows and the commits that other clients expect."""

from __future__ import annotations

import json

import lance
import pyarrow as pa
import pytest

from tests.directory.on_disk import directory, has_manifest, manifest, manifest_rows, write_table
from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_namespace,
    describe_table,
    drop_table,
    fails,
    list_all_tables,
    list_namespaces,
    list_tables,
    namespace_exists,
    register_table,
    rename_table,
    table_exists,
)

SCHEMA = pa.schema(
    [
        pa.field(
            "object_id", pa.string(), nullable=False, metadata={"lance-schema:unenforced-primary-key:position": "0"}
        ),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.field("object_id", pa.string()))),
    ]
)


@pytest.fixture(params=["v2", "compatibility"])
def ns(request, root, open_namespace):
    """Open a root in a mode that has a manifest."""
    return open_namespace(root, request.param)


def test_first_mutation_creates_the_manifest_with_the_shared_schema(ns):
    assert not has_manifest(ns)
    create_namespace(ns, "a")
    dataset = manifest(ns)
    assert dataset.schema.equals(SCHEMA)
    assert dataset.schema.field("object_id").metadata == SCHEMA.field("object_id").metadata
    assert dataset.data_storage_version == "2.2"
    names = [path.name for path in (directory(ns) / "__manifest/_versions").glob("*.manifest")]
    assert names == [f"{2**64 - 1 - 1:020}.manifest"]


def test_schema_and_primary_key_survive_many_commits(ns):
    for number in range(40):
        create_namespace(ns, f"n{number}")
    assert manifest(ns).schema.equals(SCHEMA)
    assert manifest(ns).schema.field("object_id").metadata == SCHEMA.field("object_id").metadata
    assert manifest(ns).data_storage_version == "2.2"


def test_reads_create_no_manifest(ns):
    write_table(directory(ns) / "t.lance")
    for read in (list_tables, list_all_tables, list_namespaces, describe_namespace, namespace_exists):
        read(ns)
    for read in (describe_table, table_exists):
        with fails(4):
            read(ns, "missing")
    for read in (list_tables, list_namespaces, describe_namespace, namespace_exists):
        with fails(1):
            read(ns, "missing")
    ns.migrate_to_manifest(dry_run=True)
    assert not has_manifest(ns)


def test_failed_mutations_create_no_manifest(ns):
    with fails(1):
        create_namespace(ns, "a", "b")
    with fails(1):
        create_table(ns, "a", "t")
    with fails(4):
        drop_table(ns, "t")
    with fails(4):
        rename_table(ns, "t", to="u")
    with fails(13):
        register_table(ns, "t", location="absent")
    assert not has_manifest(ns)


def test_rows_follow_the_specification(ns):
    create_namespace(ns, "a", properties={"k": "ü", "j": "'\""})
    create_namespace(ns, "a", "b")
    location = create_table(ns, "a", "b", "t", properties={"p": "q"}).location
    declare_table(ns, "a", "d")
    found = manifest_rows(ns)
    assert sorted(found) == ["a", "a$b", "a$b$t", "a$d"]
    assert {key: row["object_type"] for key, row in found.items()} == {
        "a": "namespace",
        "a$b": "namespace",
        "a$b$t": "table",
        "a$d": "table",
    }
    assert json.loads(found["a"]["metadata"]) == {"k": "ü", "j": "'\""}
    assert found["a$b"]["metadata"] is None
    assert found["a"]["location"] is None
    assert str(directory(ns) / found["a$b$t"]["location"]) == location
    assert json.loads(found["a$b$t"]["metadata"]) == {"p": "q"}


def test_every_mutation_makes_at_most_one_commit(ns):
    create_namespace(ns, "a")

    def commits(call, *names, **options):
        before = manifest(ns).version
        call(ns, *names, **options)
        return manifest(ns).version - before

    assert commits(create_namespace, "b") == 1
    assert commits(create_table, "a", "t") == 1
    assert commits(create_table, "t") == 1
    assert commits(create_table, "t", mode="overwrite") == 0
    assert commits(create_table, "t", mode="exist_ok") == 0
    assert commits(declare_table, "a", "d") == 1
    assert commits(create_table, "a", "d") == 0
    assert commits(rename_table, "a", "t", to="u", into=["b"]) == 1
    assert commits(deregister_table, "b", "u") == 1
    assert commits(drop_table, "t") == 1
    assert commits(lambda ns: ns.drop_namespace({"id": ["a"], "behavior": "cascade"})) == 1
    assert commits(lambda ns: ns.alter_namespace_properties(["b"], {"k": "v"})) == 1
    assert commits(lambda ns: ns.alter_namespace_properties(["b"], {"k": "v"})) == 0
    assert commits(create_namespace, "b", mode="exist_ok") == 0


def test_existing_manifest_keeps_its_file_format_and_version_names(ns):
    """Other clients may have written an older file format and ascending version names."""
    where = str(directory(ns) / "__manifest")
    rows = [{"object_id": "old", "object_type": "namespace", "metadata": '{"k":"v"}'}]
    lance.write_dataset(
        pa.Table.from_pylist(rows, SCHEMA), where, data_storage_version="2.0", enable_v2_manifest_paths=False
    )
    assert describe_namespace(ns, "old").properties == {"k": "v"}
    for number in range(40):
        create_namespace(ns, f"n{number}")
    drop = ns.drop_namespace({"id": ["old"]})
    assert drop.properties == {"k": "v"}
    dataset = lance.dataset(where)
    assert dataset.data_storage_version == "2.0"
    assert (directory(ns) / f"__manifest/_versions/{dataset.version}.manifest").is_file()
    assert sorted(row["object_id"] for row in dataset.to_table().to_pylist()) == sorted(f"n{n}" for n in range(40))


def test_manifest_rewritten_by_another_client_is_reloaded(ns):
    create_namespace(ns, "a")
    create_namespace(ns, "b")
    table = manifest(ns).to_table().filter(pa.compute.field("object_id") != "a")
    lance.write_dataset(table, manifest(ns).uri, mode="overwrite")
    assert list_namespaces(ns) == ["b"]
    create_namespace(ns, "a")
    assert list_namespaces(ns) == ["a", "b"]


def test_manifest_emptied_by_another_client_is_reloaded(ns):
    create_namespace(ns, "a")
    manifest(ns).delete("true")
    assert list_namespaces(ns) == []
    create_namespace(ns, "b")
    assert list_namespaces(ns) == ["b"]
    assert list(manifest_rows(ns)) == ["b"]


def test_manifest_restored_by_another_client_is_reloaded(ns):
    create_namespace(ns, "a")
    create_namespace(ns, "b")
    old = lance.dataset(manifest(ns).uri, version=1)
    old.restore()
    assert list_namespaces(ns) == ["a"]
    create_namespace(ns, "c")
    assert list_namespaces(ns) == ["a", "c"]


def test_metadata_that_is_not_a_json_object_does_not_break_the_catalog(ns):
    create_namespace(ns, "fine", properties={"k": "v"})
    odd = {
        "list": "[1]",
        "text": '"x"',
        "number": "5",
        "null": "null",
        "empty": "",
        "broken": "{not json",
        "mixed": '{"n": 5, "o": {"p": null}}',
    }
    rows = [{"object_id": key, "object_type": "namespace", "metadata": text} for key, text in odd.items()]
    lance.write_dataset(pa.Table.from_pylist(rows, SCHEMA), manifest(ns).uri, mode="append")
    assert list_namespaces(ns) == sorted(["fine", *odd])
    assert describe_namespace(ns, "fine").properties == {"k": "v"}
    for name in ("list", "text", "number", "null", "empty"):
        assert describe_namespace(ns, name).properties == {}
    assert describe_namespace(ns, "mixed").properties == {"n": "5", "o": '{"p": null}'}
    for name in odd:
        ns.drop_namespace({"id": [name]})
    assert list_namespaces(ns) == ["fine"]


def test_table_row_without_location_is_not_found(ns):
    create_namespace(ns, "a")
    rows = [{"object_id": key, "object_type": "table"} for key in ("a$t", "t")]
    lance.write_dataset(pa.Table.from_pylist(rows, SCHEMA), manifest(ns).uri, mode="append")
    for names in (["t"], ["a", "t"]):
        with fails(4):
            describe_table(ns, *names)
        with fails(4):
            table_exists(ns, *names)
