"""Namespaces, their tables and properties: one client creates them and the other uses them, both ways."""

from __future__ import annotations

import pytest
from lance_namespace import UpdateTableSchemaMetadataRequest

from tests.interop.peers import append, manifest_rows, reference_client, values
from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_namespace,
    describe_table,
    drop_namespace,
    fails,
    ipc,
    list_namespaces,
    list_tables,
    namespace_exists,
    register_table,
    remove_table,
    rename_table,
)

pytestmark = pytest.mark.interop

PROPERTIES = {"owner": "Ana Müller", "note": 'a "quoted" \\ text', "empty": "", "emoji": "😀"}


def test_a_namespace_is_seen_with_its_properties(manifest_pair):
    writer, other = manifest_pair
    create_namespace(writer, "n", properties=PROPERTIES)
    namespace_exists(other, "n")
    assert list_namespaces(other) == ["n"]
    assert describe_namespace(other, "n").properties == PROPERTIES
    with fails(2):
        create_namespace(other, "n")


def test_clients_alternately_nest_namespaces(manifest_pair):
    writer, other = manifest_pair
    create_namespace(writer, "a")
    create_namespace(other, "a", "b")
    create_namespace(writer, "a", "b", "c")
    create_table(other, "a", "b", "c", "t", data=ipc({"x": [1]}))
    for client in manifest_pair:
        assert list_namespaces(client, "a", "b") == ["c"]
        assert list_tables(client, "a", "b", "c") == ["t"]
        assert values(client, "a", "b", "c", "t") == [1]


def test_a_table_in_a_namespace_has_its_properties_for_both(manifest_pair):
    writer, other = manifest_pair
    create_namespace(writer, "n")
    create_table(writer, "n", "t", properties=PROPERTIES)
    declare_table(writer, "n", "d", properties=PROPERTIES)
    assert describe_table(other, "n", "t").properties == PROPERTIES
    assert describe_table(other, "n", "d").properties == PROPERTIES


def test_a_table_in_a_namespace_is_changed_and_dropped_by_the_other_client(manifest_pair):
    writer, other = manifest_pair
    create_namespace(writer, "n")
    create_table(writer, "n", "t", data=ipc({"x": [1]}))
    append(other, "n", "t", x=[2])
    assert values(writer, "n", "t") == [1, 2]
    remove_table(other, "n", "t")
    assert list_tables(writer, "n") == []
    with fails(4):
        describe_table(writer, "n", "t")


def test_a_table_that_one_client_deregisters_is_registered_by_the_other(place, manifest_pair):
    writer, other = manifest_pair
    create_namespace(writer, "n")
    create_table(writer, "n", "t", data=ipc({"x": [1]}))
    where = manifest_rows(place)["n$t"]["location"]
    deregister_table(writer, "n", "t")
    assert list_tables(other, "n") == []
    register_table(other, "n", "again", location=where)
    assert list_tables(writer, "n") == ["again"]
    assert values(writer, "n", "again") == [1]


def test_a_namespace_with_a_table_of_the_other_client_is_not_dropped(manifest_pair):
    writer, other = manifest_pair
    create_namespace(writer, "n")
    create_table(other, "n", "t")
    with fails(3):
        drop_namespace(writer, "n")
    remove_table(writer, "n", "t")
    drop_namespace(other, "n")
    assert list_namespaces(writer) == list_namespaces(other) == []


def test_cascade_drops_objects_of_both_clients(place, manifest_mode, open_namespace):
    ours, reference = open_namespace(place, manifest_mode), reference_client(place, manifest_mode)
    create_namespace(reference, "n")
    create_namespace(ours, "n", "m")
    create_table(reference, "n", "m", "t")
    create_table(ours, "n", "u")
    drop_namespace(ours, "n", behavior="cascade")
    assert list_namespaces(reference) == []
    with fails(4):
        describe_table(reference, "n", "u")


def test_a_table_renamed_into_another_namespace_is_found_there(place, manifest_mode, open_namespace):
    ours, reference = open_namespace(place, manifest_mode), reference_client(place, manifest_mode)
    create_namespace(reference, "a")
    create_namespace(reference, "b")
    create_table(reference, "a", "t", data=ipc({"x": [1]}), properties=PROPERTIES)
    rename_table(ours, "a", "t", to="u", into=["b"])
    assert (list_tables(reference, "a"), list_tables(reference, "b")) == ([], ["u"])
    assert values(reference, "b", "u") == [1]
    assert describe_table(reference, "b", "u").properties == PROPERTIES


def test_properties_that_pennon_alters_are_seen_by_the_reference(place, manifest_mode, open_namespace):
    ours, reference = open_namespace(place, manifest_mode), reference_client(place, manifest_mode)
    create_namespace(reference, "n", properties={"keep": "1", "go": "2"})
    ours.alter_namespace_properties(["n"], {"go": None, "come": "3"})
    assert describe_namespace(reference, "n").properties == {"keep": "1", "come": "3"}


def test_properties_of_the_root_survive_the_writes_of_the_reference(place, manifest_mode, open_namespace):
    ours, reference = open_namespace(place, manifest_mode), reference_client(place, manifest_mode)
    ours.alter_namespace_properties([], {"owner": "ana"})
    create_namespace(reference, "n")
    create_table(reference, "n", "t")
    assert describe_namespace(ours).properties["owner"] == "ana"
    assert list_namespaces(ours) == ["n"]


def test_schema_metadata_of_the_reference_is_described(place, manifest_mode, open_namespace):
    ours, reference = open_namespace(place, manifest_mode), reference_client(place, manifest_mode)
    create_namespace(ours, "n")
    create_table(ours, "n", "t")
    request = UpdateTableSchemaMetadataRequest(id=["n", "t"], metadata={"unit": "m"})
    reference.update_table_schema_metadata(request)
    described = describe_table(ours, "n", "t", load_detailed_metadata=True)
    assert described.version == 2
    assert described.var_schema.metadata == {"unit": "m"}
