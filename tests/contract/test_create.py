"""Creating tables: modes, properties, where they are put."""

from __future__ import annotations

import re
from pathlib import Path

import lance
import pytest

from tests.contract.disk import contents, directory, rows
from tests.support import (
    create_namespace,
    create_table,
    describe_table,
    fails,
    ipc,
    list_tables,
    remove_table,
    table_exists,
)


def test_created_table_can_be_read_where_it_says(place):
    ns, parent = place
    made = create_table(ns, *parent, "t", data=ipc({"x": [1, 2]}))
    assert made.version == 1
    assert rows(made.location) == [1, 2]
    assert describe_table(ns, *parent, "t").location == made.location
    assert list_tables(ns, *parent) == ["t"]
    table_exists(ns, *parent, "t")


def test_create_fails_if_the_table_is_there(place):
    ns, parent = place
    made = create_table(ns, *parent, "t", data=ipc({"x": [1]}))
    before = contents(ns)
    for mode in (None, "create"):
        with fails(5, naming="t'"):
            create_table(ns, *parent, "t", data=ipc({"x": [2]}), mode=mode)
    assert contents(ns) == before
    assert rows(made.location) == [1]


def test_exist_ok_keeps_the_table_that_is_there(place):
    ns, parent = place
    made = create_table(ns, *parent, "t", data=ipc({"x": [1]}))
    before = contents(ns)
    again = create_table(ns, *parent, "t", data=ipc({"y": ["other"]}), mode="exist_ok")
    assert again.location == made.location
    assert contents(ns) == before
    assert rows(made.location) == [1]


def test_exist_ok_and_overwrite_create_what_is_missing(place):
    ns, parent = place
    for name in ("exist_ok", "overwrite"):
        made = create_table(ns, *parent, name, data=ipc({"x": [1]}), mode=name)
        assert made.version == 1
        assert rows(made.location) == [1]


def test_overwrite_replaces_the_contents(place):
    ns, parent = place
    create_table(ns, *parent, "t", data=ipc({"x": [1]}))
    create_table(ns, *parent, "other", data=ipc({"x": [7]}))
    made = create_table(ns, *parent, "t", data=ipc({"y": ["a"]}), mode="overwrite")
    found = describe_table(ns, *parent, "t", load_detailed_metadata=True)
    assert found.location == made.location
    assert found.version == made.version
    assert lance.dataset(found.location).to_table().to_pydict() == {"y": ["a"]}
    assert rows(describe_table(ns, *parent, "other").location) == [7]


def test_overwrite_leaves_readers_of_the_old_table_alone(place):
    ns, parent = place
    reader = lance.dataset(create_table(ns, *parent, "t", data=ipc({"x": [1]})).location)
    create_table(ns, *parent, "t", data=ipc({"x": [2]}), mode="overwrite")
    assert reader.to_table()["x"].to_pylist() == [1]


def test_create_fails_if_a_namespace_has_the_name(nested):
    create_namespace(nested, "a")
    create_namespace(nested, "a", "b")
    before = contents(nested)
    for names in (["a"], ["a", "b"]):
        for mode in ("create", "exist_ok", "overwrite"):
            with fails(5, naming="namespace"):
                create_table(nested, *names, mode=mode)
    assert contents(nested) == before


def test_dropped_table_can_be_created_again(place):
    ns, parent = place
    create_table(ns, *parent, "t", data=ipc({"x": [1]}))
    remove_table(ns, *parent, "t")
    made = create_table(ns, *parent, "t", data=ipc({"y": [2]}))
    assert made.version == 1
    assert lance.dataset(made.location).to_table().to_pydict() == {"y": [2]}


def test_properties_are_kept(nested):
    create_namespace(nested, "a")
    for names in (["t"], ["a", "t"]):
        made = create_table(nested, *names, properties={"owner": 'ann\'s "own"', "ü": ""})
        assert made.properties == {"owner": 'ann\'s "own"', "ü": ""}
        assert describe_table(nested, *names).properties == made.properties


def test_a_table_without_properties_has_none(nested):
    assert create_table(nested, "t").properties == {}
    assert describe_table(nested, "t").properties == {}


def test_exist_ok_returns_the_existing_properties(nested):
    create_table(nested, "t", properties={"k": "1"})
    assert create_table(nested, "t", mode="exist_ok", properties={"k": "2"}).properties == {"k": "1"}
    assert describe_table(nested, "t").properties == {"k": "1"}


def test_overwrite_replaces_the_properties(nested):
    """As the SDK has it: the existing table is dropped and a new one with this name is created."""
    create_namespace(nested, "a")
    for names in (["t"], ["a", "t"]):
        create_table(nested, *names, properties={"k": "1", "old": "1"})
        assert create_table(nested, *names, mode="overwrite", properties={"k": "2"}).properties == {"k": "2"}
        assert describe_table(nested, *names).properties == {"k": "2"}


def test_v1_refuses_properties_that_it_cannot_keep(root, open_namespace):
    ns = open_namespace(root, "v1")
    with fails(0, naming="properties"):
        create_table(ns, "t", properties={"k": "v"})
    assert list_tables(ns) == []
    create_table(ns, "t")
    assert describe_table(ns, "t").properties is None


@pytest.mark.parametrize("mode_of_root", ["v1", "compatibility"])
def test_root_tables_are_in_a_directory_of_their_name(root, open_namespace, mode_of_root):
    ns = open_namespace(root, mode_of_root)
    assert create_table(ns, "t").location == str(directory(ns) / "t.lance")


def test_other_tables_are_in_hashed_directories_that_are_never_reused(root, open_namespace):
    ns = open_namespace(root, "v2")
    create_namespace(ns, "a")
    seen = set()
    for names in (["t"], ["a", "t"]):
        for _ in range(2):
            location = Path(create_table(ns, *names).location)
            assert location.parent == directory(ns)
            assert re.fullmatch(r"[0-9a-f]{8}_" + re.escape("$".join(names)), location.name)
            seen.add(location.name)
            remove_table(ns, *names)
    assert len(seen) == 4


def test_compatibility_mode_puts_nested_tables_into_hashed_directories(root, open_namespace):
    ns = open_namespace(root, "compatibility")
    create_namespace(ns, "a")
    location = Path(create_table(ns, "a", "t").location)
    assert re.fullmatch(r"[0-9a-f]{8}_a\$t", location.name)


def test_a_failed_creation_leaves_nothing_behind(place):
    ns, parent = place
    create_table(ns, *parent, "first")
    before = contents(ns)
    with fails(13):
        create_table(ns, *parent, "t", data=ipc({"a.b": [1]}))
    assert contents(ns) == before
    with fails(4):
        describe_table(ns, *parent, "t")
    create_table(ns, *parent, "t")
    assert list_tables(ns, *parent) == ["first", "t"]
