"""Tables that one kind of client makes and the other one reads and changes, in each mode, both ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from pennon import DirectoryNamespace
from tests.interop.peers import append, reference_client, values
from tests.support import (
    create_table,
    declare_table,
    deregister_table,
    describe_table,
    fails,
    ipc,
    list_all_tables,
    list_tables,
    register_table,
    remove_table,
    rename_table,
    table_exists,
)

pytestmark = pytest.mark.interop

# The reference client cannot describe or drop root tables with other special characters, its own included.
NAMES_FOR_BOTH = ["plain", "with space", "it's", "a+b", "a&b=c", "a:b", "a;b", "a.b", "t.lance", ".hidden", "Upper"]
NAMES_THE_REFERENCE_ONLY_MAKES = ["äöü", "日本", "😀", "100%", "%41", 'q"uote', "a#b", "a?b", "a*b", "[x]", "~t", "{y}"]


def test_a_table_is_seen_and_read_by_the_other_client(pair):
    writer, other = pair
    create_table(writer, "t", data=ipc({"x": [1, 2]}))
    table_exists(other, "t")
    assert list_tables(other) == ["t"]
    assert values(other, "t") == [1, 2]
    assert describe_table(other, "t", load_detailed_metadata=True).version == 1


def test_rows_that_the_other_client_appends_are_read(pair):
    writer, other = pair
    create_table(writer, "t", data=ipc({"x": [1]}))
    append(other, "t", x=[2])
    append(writer, "t", x=[3])
    assert values(writer, "t") == values(other, "t") == [1, 2, 3]
    assert describe_table(writer, "t", load_detailed_metadata=True).version == 3


def test_table_of_the_other_client_is_a_conflict(pair):
    writer, other = pair
    create_table(writer, "t", data=ipc({"x": [1]}))
    with fails(5):
        create_table(other, "t", data=ipc({"x": [2]}))
    assert values(writer, "t") == [1]


def test_table_dropped_by_the_other_client_can_be_created_again_by_either(pair):
    writer, other = pair
    for maker in (writer, other):
        create_table(writer, "t", data=ipc({"x": [1]}))
        remove_table(other, "t")
        for client in pair:
            assert list_tables(client) == []
            with fails(4):
                describe_table(client, "t")
        create_table(maker, "t", data=ipc({"x": [2]}))
        assert values(writer, "t") == values(other, "t") == [2]
        remove_table(other, "t")


def test_a_dropped_table_leaves_no_directory(pair, place):
    writer, other = pair
    create_table(writer, "t")
    remove_table(other, "t")
    left = {path.name for path in Path(place.uri).iterdir()}
    assert left <= {"__manifest", ".lance-locks", ".lance-trash"}


def test_a_declared_table_is_seen_as_declared_and_filled_by_the_other_client(pair):
    writer, other = pair
    declare_table(writer, "t")
    assert describe_table(other, "t", check_declared=True).is_only_declared
    assert list_tables(other) == ["t"]
    create_table(other, "t", data=ipc({"x": [7]}))
    for client in pair:
        assert describe_table(client, "t", check_declared=True).is_only_declared is False
        assert list_tables(client, include_declared=False) == ["t"]
        assert values(client, "t") == [7]


def test_a_table_that_was_declared_by_the_other_client_can_be_dropped(pair):
    writer, other = pair
    declare_table(writer, "t")
    remove_table(other, "t")
    assert list_tables(writer) == list_tables(other) == []
    create_table(writer, "t", data=ipc({"x": [1]}))
    assert values(other, "t") == [1]


def test_other_client_can_omit_tables_that_pennon_declared(ours, reference):
    declare_table(ours, "declared")
    create_table(ours, "full")
    assert list_tables(reference, include_declared=False) == ["full"]


def test_a_table_that_the_reference_declared_is_left_out_with_legacy_markers(place, mode, reference, open_namespace):
    declare_table(reference, "declared")
    create_table(reference, "full")
    assert list_tables(open_namespace(place, mode, legacy_markers="true"), include_declared=False) == ["full"]


def test_a_table_that_pennon_deregisters_is_gone_for_the_reference(ours, reference):
    create_table(ours, "t")
    deregister_table(ours, "t")
    assert list_tables(reference) == []
    with fails(4):
        describe_table(reference, "t")


@pytest.mark.parametrize("mode", ["v1", "v2"])
def test_a_table_that_the_reference_deregisters_is_gone_for_pennon(ours, reference):
    create_table(ours, "t")
    deregister_table(reference, "t")
    with fails(4):
        describe_table(ours, "t")
    with fails(4):
        table_exists(ours, "t")


@pytest.mark.parametrize("mode", ["v1"])
def test_table_deregistered_by_the_reference_is_not_listed_after_migrate_markers(
    place, ours, reference, mode, open_namespace
):
    create_table(ours, "t")
    deregister_table(reference, "t")
    assert list_tables(open_namespace(place, mode, legacy_markers="true")) == []
    ours.migrate_markers()
    assert list_tables(ours) == []


@pytest.mark.parametrize("mode", ["v1", "v2"])
def test_a_table_that_the_reference_deregistered_is_registered_again_by_pennon(place, ours, reference):
    where = create_table(ours, "t", data=ipc({"x": [1]})).location.removeprefix(f"{place.uri}/")
    deregister_table(reference, "t")
    register_table(ours, "t", location=where)
    assert list_tables(ours) == list_tables(reference) == ["t"]
    assert values(reference, "t") == [1]


@pytest.mark.parametrize("mode", ["v2"])
def test_a_table_that_pennon_deregistered_is_registered_again_by_the_reference(place, ours, reference):
    where = create_table(ours, "t", data=ipc({"x": [1]})).location.removeprefix(f"{place.uri}/")
    deregister_table(ours, "t")
    register_table(reference, "again", location=where)
    assert list_tables(ours) == list_tables(reference) == ["again"]
    assert values(ours, "again") == [1]


@pytest.mark.parametrize("mode", ["v1", "compatibility"])
@pytest.mark.parametrize("maker", ["pennon", "reference"])
def test_table_deregistered_by_pennon_and_dropped_by_the_reference_can_be_created_again(ours, reference, mode, maker):
    create_table(ours, "t", data=ipc({"x": [1]}))
    deregister_table(ours, "t")
    if mode == "compatibility":
        register_table(reference, "t", location="t.lance")  # it drops only what has a row
    remove_table(reference, "t")
    create_table(ours if maker == "pennon" else reference, "t", data=ipc({"x": [2]}))
    assert values(ours, "t") == [2]
    if mode == "v1" and maker == "reference":
        # Listings use the marker beside the directory, which the other client does not write.
        assert ours.migrate_markers().removed == ["t"]
    assert list_tables(ours) == list_tables(reference) == ["t"]


def test_names_that_both_clients_can_use(pair):
    writer, other = pair
    for name in NAMES_FOR_BOTH:
        create_table(writer, name, data=ipc({"x": [1]}))
    assert list_tables(other) == list_tables(writer) == sorted(NAMES_FOR_BOTH)
    for name in NAMES_FOR_BOTH:
        append(other, name, x=[2])
        assert values(writer, name) == values(other, name) == [1, 2]
        remove_table(other, name)
    assert list_tables(writer) == list_tables(other) == []


def test_pennon_can_use_names_that_the_reference_can_only_create(place, ours, reference):
    for name in NAMES_THE_REFERENCE_ONLY_MAKES:
        create_table(reference, name, data=ipc({"x": [1]}))
    assert list_tables(ours) == sorted(list_tables(reference)) == sorted(NAMES_THE_REFERENCE_ONLY_MAKES)
    for name in NAMES_THE_REFERENCE_ONLY_MAKES:
        append(ours, name, x=[2])
        assert values(ours, name) == [1, 2]
        remove_table(ours, name)
    assert list_tables(ours) == list_tables(reference) == []
    left = {path.name for path in Path(place.uri).iterdir()}
    assert left <= {"__manifest", ".lance-locks", ".lance-trash"}


def test_the_reference_lists_and_plain_lance_reads_names_that_only_pennon_can_use(ours, reference):
    for name in NAMES_THE_REFERENCE_ONLY_MAKES:
        create_table(ours, name, data=ipc({"x": [1]}))
    assert sorted(list_tables(reference)) == sorted(NAMES_THE_REFERENCE_ONLY_MAKES)
    for name in NAMES_THE_REFERENCE_ONLY_MAKES:
        assert values(ours, name) == [1]


def test_root_tables_of_the_v1_mode_are_shared_with_the_default_mode_of_the_reference(place, open_namespace):
    v1, reference = open_namespace(place, "v1"), reference_client(place)
    create_table(v1, "a", data=ipc({"x": [1]}))
    create_table(reference, "b", data=ipc({"x": [2]}))
    assert list_tables(v1) == list_tables(reference) == ["a", "b"]
    assert values(reference, "a") == [1]
    remove_table(v1, "b")
    assert list_tables(v1) == list_tables(reference) == ["a"]


def test_root_table_dropped_by_a_v1_client_can_be_created_again(place, open_namespace):
    ours = open_namespace(place)
    for other in (reference_client(place, "v1"), open_namespace(place, "v1")):
        create_table(ours, "t", data=ipc({"x": [1]}))
        remove_table(other, "t")
        assert list_tables(ours) == []
        with fails(4):
            describe_table(ours, "t")
        create_table(ours, "t", data=ipc({"x": [2]}))
        assert values(ours, "t") == [2]
        remove_table(ours, "t")


def test_a_table_in_a_hashed_directory_is_seen_in_both_modes_with_a_manifest(place, open_namespace):
    create_table(open_namespace(place, "v2"), "ours", data=ipc({"x": [1]}))
    create_table(reference_client(place, "v2"), "theirs", data=ipc({"x": [2]}))
    for mode in ("v2", "compatibility"):
        ns = open_namespace(place, mode)
        assert list_tables(ns) == ["ours", "theirs"]
        assert (values(ns, "ours"), values(ns, "theirs")) == ([1], [2])
    assert list_tables(reference_client(place, "v2")) == ["ours", "theirs"]


def test_a_renamed_table_is_found_by_the_reference_under_its_new_name(place, open_namespace):
    ours, reference = open_namespace(place, "v2"), reference_client(place, "v2")
    create_table(reference, "old", data=ipc({"x": [1]}))
    rename_table(ours, "old", to="new")
    assert list_tables(reference) == ["new"]
    append(reference, "new", x=[2])
    assert values(ours, "new") == [1, 2]
    remove_table(reference, "new")
    assert list_tables(ours) == []


def test_a_renamed_root_table_is_not_shown_under_its_old_name(place, open_namespace):
    ours, reference = open_namespace(place), reference_client(place)
    create_table(reference, "old", data=ipc({"x": [1]}))
    rename_table(ours, "old", to="new")
    assert list_tables(ours) == ["new"]
    assert list_tables(reference) == []
    with fails(4):
        describe_table(reference, "old")
    assert list_tables(reference_client(place, "v1")) == []
    assert list_tables(reference_client(place, "v2")) == ["new"]
    assert values(reference_client(place, "v2"), "new") == [1]


def test_list_all_tables_contains_tables_of_both_clients(manifest_pair):
    writer, other = manifest_pair
    create_table(writer, "a")
    create_table(other, "b")
    ours = next(client for client in manifest_pair if isinstance(client, DirectoryNamespace))
    assert list_all_tables(ours) == ["a", "b"]
