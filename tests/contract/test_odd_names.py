"""Names that are odd but legal: they survive every operation in every mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.disk import contents, rows
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
    list_all_tables,
    list_namespaces,
    list_tables,
    namespace_exists,
    register_table,
    remove_table,
    rename_table,
    table_exists,
)

ODD = [
    "with space",
    " leading",
    " ",
    "%",
    "%20",
    "%2F",
    "?",
    "#",
    "*",
    "it's",
    '"quoted"',
    "a:b",
    "a|b<c>d",
    "{x}",
    "[x]",
    "-x",
    "^`!@&+",
    "🙂",
    "日本語",
    "é",
    "e\u0301",
    "\u202egnp",
    "a\u200bb",
    ".hidden",
    "...",
    "trailing.",
    "x.lance",
    ".lance",
    "x.lance.lance",
    "x.deleted",
    "x.deregistered",
    "x.declared",
    ".lance-locks",
    ".lance-reserved",
    "_versions",
    "null",
    "x" * 230,
]


on_local_disk = pytest.mark.parametrize("root", ["local"], indirect=True)
"""Memory has all the names at once, in the last test."""


@on_local_disk
@pytest.mark.parametrize("name", ODD, ids=lambda name: ascii(name)[:24])
def test_an_odd_name_survives_every_operation_on_tables(place, name):
    ns, parent = place
    identifier = "$".join([*parent, name])
    declared = declare_table(ns, *parent, name)
    made = create_table(ns, *parent, name, data=ipc({"x": [7]}))
    assert made.location == declared.location
    assert rows(made.location) == [7]
    found = describe_table(ns, *parent, name, load_detailed_metadata=True, with_table_uri=True, check_declared=True)
    assert (found.table, found.namespace, found.location) == (name, list(parent), made.location)
    assert rows(found.table_uri) == [7]
    table_exists(ns, *parent, name)
    with fails(5):
        create_table(ns, *parent, name)
    assert create_table(ns, *parent, name, mode="overwrite", data=ipc({"x": [8]})).version == 2
    assert list_tables(ns, *parent) == [name]
    assert list_tables(ns, *parent, include_declared=False) == [name]
    assert list_all_tables(ns) == [identifier]
    deregister_table(ns, *parent, name)
    assert list_tables(ns, *parent) == []
    register_table(ns, *parent, name, location=Path(made.location).name)
    assert rows(describe_table(ns, *parent, name).location) == [8]
    assert remove_table(ns, *parent, name).id == [*parent, name]
    assert list_tables(ns, *parent) == []
    with fails(4):
        describe_table(ns, *parent, name)
    assert not [path for path in contents(ns) if not path.startswith("__manifest/")]


@on_local_disk
@pytest.mark.parametrize("name", ODD, ids=lambda name: ascii(name)[:24])
def test_an_odd_name_survives_every_operation_on_namespaces_and_renames(nested, name):
    name = name[:100]
    create_namespace(nested, name, properties={name: name})
    assert describe_namespace(nested, name).properties == {name: name}
    namespace_exists(nested, name)
    with fails(2):
        create_namespace(nested, name)
    create_namespace(nested, name, "n")
    assert list_namespaces(nested) == [name]
    assert list_namespaces(nested, name) == ["n"]
    assert nested.alter_namespace_properties([name], {"k": name}) == {name: name, "k": name}
    create_table(nested, name, "t")
    rename_table(nested, name, "t", to="plain", into=[])
    rename_table(nested, "plain", to=f"{name}2")
    assert list_tables(nested) == [f"{name}2"]
    rename_table(nested, f"{name}2", to=name, into=[name])
    assert list_tables(nested, name) == [name]
    with fails(3):
        drop_namespace(nested, name)
    drop_namespace(nested, name, behavior="cascade", context={"ttl": "0"})
    assert list_namespaces(nested) == []
    assert [table.id for table in nested.purge_tables().tables] == [[name, name]]
    assert not [path for path in contents(nested) if not path.startswith("__manifest/")]


def test_similar_odd_names_are_different_tables(place):
    ns, parent = place
    names = sorted(name for name in ODD if len(name) < 200)
    for number, name in enumerate(names):
        create_table(ns, *parent, name, data=ipc({"x": [number]}))
    assert list_tables(ns, *parent) == names
    for name in names[::2]:
        remove_table(ns, *parent, name)
    assert list_tables(ns, *parent) == names[1::2]
    for number, name in enumerate(names):
        if number % 2:
            assert rows(describe_table(ns, *parent, name).location) == [number]
