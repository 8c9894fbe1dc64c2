"""Locations that callers give: none may reach out of the root, into the catalog's own files or another table."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest
from lance_namespace.errors import LanceNamespaceError

from tests.contract.disk import contents, directory, everything, rows, write_table
from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    describe_table,
    fails,
    ipc,
    list_all_tables,
    list_tables,
    register_table,
    remove_table,
)

HOSTILE = [
    "",
    "/",
    ".",
    "./",
    "..",
    "../",
    "../outside",
    "a/../../outside",
    "a/../b",
    "./b",
    "a/./b",
    "a//b",
    "//a",
    "/etc",
    "file:///etc",
    "s3://bucket/x",
    "__manifest",
    "__manifest/",
    "__manifest/data",
    "__manifest/x",
    "__x",
    ".lance-locks",
    ".lance-locks/x",
    ".lance-trash",
    ".lance-trash/x",
    "a\\b",
    "a\0b",
    "a\nb",
    "a\x7fb",
    "a\ud800b",
    "x" * 300,
    "a/" * 3000 + "b",
]


@contextmanager
def refused():
    """Expect 13 or 5: which of them depends on whose place it is."""
    with pytest.raises(LanceNamespaceError) as caught:
        yield
    assert int(caught.value.code) in {5, 13}


@pytest.fixture
def catalog(nested, tmp_path):
    """Return a catalog with a table, and a table outside the root that a path could lead to."""
    create_namespace(nested, "n")
    create_table(nested, "n", "there")
    write_table(tmp_path / "outside")
    return nested


@pytest.mark.parametrize("location", HOSTILE, ids=lambda location: ascii(location)[:20])
def test_hostile_location_cannot_be_registered_or_declared(catalog, tmp_path, location):
    before = everything(catalog), sorted(tmp_path.rglob("*"))
    for names in (["t"], ["n", "t"]):
        for options in ({}, {"mode": "overwrite"}, {"context": {"allow_missing": "true"}}):
            with fails(13):
                catalog.register_table({"id": names, "location": location, **options})
        with fails(13):
            catalog.declare_table({"id": names, "location": location})
    assert (everything(catalog), sorted(tmp_path.rglob("*"))) == before
    assert list_all_tables(catalog) == ["n$there"]


def test_the_root_itself_cannot_be_declared_or_registered_in_full(catalog):
    before = everything(catalog)
    for location in (str(directory(catalog)), directory(catalog).as_uri(), f"{directory(catalog)}/"):
        with fails(13):
            declare_table(catalog, "t", location=location)
        with fails(13):
            register_table(catalog, "t", location=location)
    assert everything(catalog) == before


@pytest.mark.parametrize("location", ["", "..", "__manifest", "../x.lance", "/x.lance", "t.lance/x", "x" * 300])
def test_v1_refuses_hostile_locations_too(root, open_namespace, location):
    ns = open_namespace(root, "v1")
    create_table(ns, "t")
    before = everything(ns)
    for names in (["t"], ["u"]):
        with fails(13):
            register_table(ns, *names, location=location, mode="overwrite")
        with fails(13):
            declare_table(ns, *names, location=location)
    assert everything(ns) == before


def test_the_location_of_another_table_is_refused(nested):
    create_namespace(nested, "a")
    hashed = Path(create_table(nested, "a", "t", data=ipc({"x": [1]})).location)
    root_table = Path(create_table(nested, "r", data=ipc({"x": [2]})).location)
    before = contents(nested)
    for location in (hashed.name, root_table.name, f"{hashed.name}/"):
        for options in ({}, {"mode": "overwrite"}, {"context": {"allow_missing": "true"}}):
            with fails(13, naming="belongs"):
                register_table(nested, "thief", location=location, **options)
    assert contents(nested) == before
    assert list_all_tables(nested) == ["a$t", "r"]


def test_a_location_inside_of_another_table_is_refused(nested):
    create_namespace(nested, "a")
    hashed = Path(create_table(nested, "a", "t").location)
    root_table = Path(create_table(nested, "r").location)
    for outer in (hashed, root_table):
        write_table(outer / "inner")
    before = contents(nested)
    for outer in (hashed, root_table):
        for inner in ("inner", "_versions", "data", "absent"):
            for options in ({}, {"context": {"allow_missing": "true"}}):
                with fails(13):
                    register_table(nested, "thief", location=f"{outer.name}/{inner}", **options)
            with refused():
                declare_table(nested, "thief", location=f"{outer.name}/{inner}")
    assert contents(nested) == before
    assert list_all_tables(nested) == ["a$t", "r"]


def test_a_location_that_contains_another_table_is_refused(nested):
    top = directory(nested)
    write_table(top / "outer")
    write_table(top / "outer/mid/inner", [7])
    register_table(nested, "inner", location="outer/mid/inner")
    before = contents(nested)
    for location in ("outer", "outer/mid"):
        for options in ({}, {"mode": "overwrite"}, {"context": {"allow_missing": "true"}}):
            with fails(13):
                register_table(nested, "thief", location=location, **options)
        with refused():
            declare_table(nested, "thief", location=location)
    assert contents(nested) == before
    assert rows(describe_table(nested, "inner").location) == [7]


@pytest.mark.parametrize("location", ["t.deleted", "t.deregistered", "x.declared"])
def test_location_of_a_marker_is_rejected(nested, location):
    # A directory there would block the marker with that name.
    create_table(nested, "t")
    with fails(13):
        declare_table(nested, "thief", location=location)
    with fails(13):
        register_table(nested, "thief", location=location, context={"allow_missing": "true"})
    remove_table(nested, "t")
    create_table(nested, "t")
    assert list_tables(nested) == ["t"]


def test_directory_of_a_root_table_is_reserved_for_its_name(nested):
    create_namespace(nested, "a")
    for names in (["u"], ["a", "t"]):
        with fails(13, naming="t.lance"):
            declare_table(nested, *names, location="t.lance")
    create_table(nested, "t")
    assert list_all_tables(nested) == ["t"]


def test_dropping_never_removes_the_data_of_another_table(nested):
    create_namespace(nested, "a")
    kept = {}
    for number, names in enumerate((["t"], ["a", "t"], ["a", "t2"], ["t2"])):
        kept[tuple(names)] = create_table(nested, *names, data=ipc({"x": [number]})).location
    write_table(directory(nested) / "deep/t", [9])
    write_table(directory(nested) / "deep/tt", [10])
    register_table(nested, "reg", location="deep/t")
    register_table(nested, "reg2", location="deep/tt")
    remove_table(nested, "reg")
    remove_table(nested, "t")
    remove_table(nested, "a", "t")
    assert rows(kept["a", "t2"]) == [2]
    assert rows(kept[("t2",)]) == [3]
    assert rows(str(directory(nested) / "deep/tt")) == [10]
